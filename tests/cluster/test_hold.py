"""A cluster that stumbles as it starts is started once more, and that is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.drivers import Driver
from tests.cluster.hold import start
from tests.cluster.shell import Broken
from tests.cluster.target import Cluster

CLUSTER = Cluster(Path("kubeconfig"), Path("kubectl"), "fake", {})


def stumbling(times: int) -> Driver:
    left = [Broken("etcd ended")] * times

    @contextmanager
    def cluster() -> Iterator[Cluster]:
        if left:
            raise left.pop()
        yield CLUSTER

    return Driver("the fake cluster", lambda: True, lambda: None, cluster)


@pytest.fixture(autouse=True)
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report of all parts, which is not that of the part that this test is in."""
    path = tmp_path / "parts.txt"
    monkeypatch.setenv("PARTS", str(path))
    return path


def test_cluster_that_stumbles_is_started_again_and_reported(report: Path) -> None:
    with start(stumbling(1)) as cluster:
        assert cluster == CLUSTER
    assert report.read_text() == "the fake cluster started only the second time: etcd ended\n"


def test_cluster_that_stumbles_twice_is_broken() -> None:
    with pytest.raises(Broken, match="etcd ended"), start(stumbling(2)):
        pass
