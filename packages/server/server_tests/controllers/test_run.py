"""The process of the controllers: which run, with whose credentials, and how it stops."""

import logging
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from kubectl_sky.cli.main import sky
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds
from kubectl_sky.words.settings import Settings
from kubectl_sky_server.controllers import lease, run
from kubectl_sky_server.controllers.loop import Context, Controller
from tests.fake_cluster import FakeCluster
from tests.ports import free_port

LEASE = "kubectl-sky-tasks"


def sky_run(*arguments: str) -> Any:
    return CliRunner().invoke(sky, ["controllers", "run", *arguments], prog_name="kubectl sky")


@pytest.mark.parametrize("name", ["nobody", "", "tasks,"])
def test_controllers_run_with_unknown_name_lists_names(name: str) -> None:
    done = sky_run("--only", name)
    assert done.exit_code == 2
    assert f'unknown controller "{name.removeprefix("tasks,")}"' in done.output
    assert "use tasks, ray, fairshare" in done.output


def test_each_controller_is_found_by_its_name() -> None:
    session = Session.connect(Connection(server="http://127.0.0.1:1"))
    settings = Settings(fair_share={"gold": {}})
    context = Context(session, None, settings, timedelta(days=1))
    found = [run.find_controllers([name], context) for name in ("tasks", "ray", "fairshare")]
    classes = [[type(item).__name__ for item in items] for items in found]
    assert classes == [["TasksController", "Sweeper"], ["RayController"], ["FairShare"]]


class Recorder(Controller[str]):
    """A controller that does nothing."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        log.append("start")

    def stop(self) -> None:
        self.log.append("stop")

    def process(self, key: str) -> None:
        """Nothing is due."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_lost_lease_stops_controllers_which_start_again_until_a_signal(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    api = FakeCluster()
    log = list[str]()
    monkeypatch.setattr(Session, "connect", lambda connection=None: api.session(connection))
    monkeypatch.setattr(run, "find_controllers", lambda names, context: [Recorder(log)])
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lease, "_RETRY_SECONDS", 0.01)
    port = free_port()
    leading = list[str]()

    def note_metrics() -> None:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        leading.extend([line for line in lines if not line.startswith("#")][:2])

    def take_lease() -> None:
        note_metrics()
        other = {"holderIdentity": "other", "leaseDurationSeconds": 45}
        spec = other | {"renewTime": datetime.now(UTC).isoformat()}
        api.change(kinds.LEASE, LEASE, spec=spec)

    api.before("patch leases", take_lease, nth=3)

    def free_lease() -> None:
        note_metrics()
        api.change(kinds.LEASE, LEASE, spec={"holderIdentity": ""})

    api.before("get leases", free_lease, nth=4)
    api.before("patch leases", lambda: os.kill(os.getpid(), number), nth=8)
    health = ("127.0.0.1", port)
    run.run(run.Options(("tasks",), Connection(), "default", Settings(), health))
    assert log == ["start", "stop"] * 2
    assert leading == [
        'kubectl_sky_controller_leader{controller="tasks"} 1.0',
        'kubectl_sky_controller_reconciles_total{controller="tasks",loop="Recorder"} 0.0',
        'kubectl_sky_controller_leader{controller="tasks"} 0.0',
    ]
    assert api.get(kinds.LEASE, LEASE)["spec"]["holderIdentity"] == "", "it is given back"


def test_log_line_has_no_line_breaks_and_no_escapes() -> None:
    record = logging.LogRecord("sky", logging.ERROR, "f", 1, "bad\n\x1b[31m%s", ("name",), None)
    assert run.OneLine("%(levelname)s %(message)s").format(record) == "ERROR bad name"
