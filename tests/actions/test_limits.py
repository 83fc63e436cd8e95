"""A client limits how many of its requests run at a time, and start per second."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from kubectl_sky.cluster import objects
from kubectl_sky.words import kinds
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster
from tests.polling import eventually


def test_at_most_16_requests_run_at_a_time(api: FakeCluster) -> None:
    session = api.session()
    released = Event()
    running = []

    def hold() -> None:
        running.append(1)
        released.wait(60)

    for nth in range(1, 21):
        api.before("list pods", hold, nth)
    with ThreadPoolExecutor(20) as pool:
        for _ in range(20):
            pool.submit(objects.list_all, session, kinds.POD, "default")
        eventually(lambda: len(running) == 16)
        time.sleep(0.2)
        assert len(running) == 16
        released.set()
    assert len(running) == 20


def test_requests_per_second_of_the_settings_is_obeyed(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "settings.yaml").write_text("requests_per_second: 20\n")
    assert run("list")[0] == 0
    (connection,) = api.connections
    session = api.session(connection)
    since = time.monotonic()
    for _ in range(5):
        objects.list_all(session, kinds.POD, "default")
    assert time.monotonic() - since >= 4 / 20
    (tmp_path / "settings.yaml").write_text("requests_per_second: 0\n")
    code, _, err = run("list")
    assert code == 2
    assert "settings.yaml:1:22: requests_per_second: expected a number such as 20, got 0" in err
