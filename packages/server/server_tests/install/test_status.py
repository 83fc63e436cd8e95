"""`controllers status`: which run, who leads, since when, and what was done last."""

import json
from threading import Event

import pytest

from kubectl_sky.cli import main
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds
from kubectl_sky_server.controllers import lease
from kubectl_sky_server.controllers.lease import LeaseKeeper, claims_of
from kubectl_sky_server.install import action
from kubectl_sky_server.install.model import Flags, controllers_install
from tests.fake_cluster import FakeCluster


def keep_until(api: FakeCluster, keeper: LeaseKeeper, renewals: int) -> None:
    """Renew the Lease some times."""
    stop = Event()
    api.before("patch leases", stop.set, nth=renewals)
    keeper.keep(stop)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    cluster.kinds.add(kinds.DEPLOYMENT)
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(Session, "connect", lambda connection=None: cluster.session(connection))
    return cluster


def test_status_joins_deployment_and_lease_of_leader(
    api: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    installs = controllers_install(Flags("default"), ("tasks", "ray"), replicas=2)
    for item in action.controllers(installs):
        if item.object["kind"] == "Deployment":
            api.put(item.object | {"status": {"readyReplicas": 2}})
    (claim,) = claims_of(("tasks",), "default")
    keeper = LeaseKeeper(api.session(), [claim])
    assert keeper.acquire(Event())

    keeper.did("led a step of a task or pipeline")
    keep_until(api, keeper, 1)
    api.requests.clear()
    assert main.main(["controllers", "status", "-o", "json"]) == 0

    ray, tasks = json.loads(capsys.readouterr().out)["controllers"]
    assert (tasks["controller"], tasks["serves"], tasks["namespace"]) == (
        *("tasks", "default", "default"),
    )
    assert (tasks["replicas"], tasks["ready"], tasks["leader"]) == (2, 2, claim.holder)
    assert tasks["since"] and tasks["last_action"].endswith("Z led a step of a task or pipeline")
    assert (ray["controller"], ray["leader"], ray["last_action"]) == ("ray", "", "")
    assert len(api.requests) == 2, "one list per kind"


def test_status_shows_process_without_deployment_and_since_when_it_leads(
    api: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["controllers", "status"]) == 0
    assert "controllers install" in capsys.readouterr().err
    keeper = LeaseKeeper(api.session(), claims_of(("tasks",), "default"))
    assert keeper.acquire(Event())
    assert main.main(["controllers", "status", "-o", "json"]) == 0
    (before,) = json.loads(capsys.readouterr().out)["controllers"]
    keep_until(api, keeper, 2)
    assert main.main(["controllers", "status", "-o", "json"]) == 0
    (after,) = json.loads(capsys.readouterr().out)["controllers"]
    assert before == after and after["replicas"] is None, "renewals do not change since"
    keeper.release()
    assert main.main(["controllers", "status"]) == 0
    assert "No controllers found" in capsys.readouterr().err
