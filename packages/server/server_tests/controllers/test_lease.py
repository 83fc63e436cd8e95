"""A process holds its Leases, loses them, and waits for them."""

from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from kubectl_sky.cluster import leases
from kubectl_sky.cluster.leases import Claim
from kubectl_sky.errors import ClusterError, NotFound
from kubectl_sky.words import kinds
from kubectl_sky_server.controllers import lease
from kubectl_sky_server.controllers.lease import LeaseKeeper, claims_of
from tests.actions.conftest import shorten_waits
from tests.fake_cluster import FakeCluster, lost

OTHERS = {"holderIdentity": "other", "leaseDurationSeconds": 45}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    shorten_waits(monkeypatch)
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lease, "_RETRY_SECONDS", 0.01)
    return FakeCluster()


def put(api: FakeCluster, claim: Claim, spec: dict[str, object]) -> None:
    manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    now = datetime.now(UTC).isoformat()
    api.put(manifest | {"metadata": {"name": claim.name}, "spec": {"renewTime": now} | spec})


def holder(api: FakeCluster, claim: Claim) -> str:
    return str(api.get(kinds.LEASE, claim.name)["spec"]["holderIdentity"])


def test_claims_of_two_processes_are_in_one_order_with_different_holders() -> None:
    first = claims_of(("tasks", "ray"), None)
    second = claims_of(("ray", "tasks"), None)
    assert [claim.name for claim in first] == ["kubectl-sky-ray-all", "kubectl-sky-tasks-all"]
    assert [claim.name for claim in first] == [claim.name for claim in second]
    assert first[0].namespace == "kubectl-sky"
    assert first[0].holder != second[0].holder


def test_keeper_waits_for_other_process_and_outage_then_holds(
    api: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (claim,) = claims_of(("tasks",), "default")
    put(api, claim, OTHERS)
    api.before("get leases", lost, nth=2)
    api.before("get leases", lambda: put(api, claim, {"holderIdentity": ""}), nth=9)
    keeper = LeaseKeeper(api.session(), [claim])
    assert keeper.acquire(Event())
    assert holder(api, claim) == claim.holder
    assert "another process holds it" in caplog.text
    keeper.release()
    assert holder(api, claim) == ""


def test_keeper_returns_why_when_other_process_takes_lease(api: FakeCluster) -> None:
    (claim,) = claims_of(("tasks",), "default")
    keeper = LeaseKeeper(api.session(), [claim])

    assert keeper.acquire(Event())
    put(api, claim, OTHERS)
    why = keeper.keep(Event())
    assert why == "lost the Lease default/kubectl-sky-tasks: another process holds it"
    keeper.release()
    assert holder(api, claim) == "other"


def test_keeper_stops_waiting_and_renewing_at_a_signal(api: FakeCluster) -> None:
    (claim,) = claims_of(("tasks",), "default")
    put(api, claim, OTHERS)
    stop = Event()
    api.before("get leases", stop.set, nth=2)
    keeper = LeaseKeeper(api.session(), [claim])
    assert not keeper.acquire(stop)
    assert keeper.keep(stop) == ""
    assert holder(api, claim) == "other"


def test_keeper_forbidden_names_install(api: FakeCluster) -> None:
    api.forbidden.add("create leases")
    keeper = LeaseKeeper(api.session(), claims_of(("tasks",), "default"))
    with pytest.raises(ClusterError, match="controllers install"):
        keeper.acquire(Event())


@pytest.mark.parametrize("hours", [-2, 2])
def test_hold_with_wrong_clock_writes_time_of_server(api: FakeCluster, hours: int) -> None:
    api.ahead = timedelta(hours=hours)
    (claim,) = claims_of(("tasks",), "default")
    assert leases.hold(api.session(), claim)
    renewed_at = datetime.fromisoformat(api.get(kinds.LEASE, claim.name)["spec"]["renewTime"])
    assert abs(renewed_at - datetime.now(UTC) - api.ahead) < timedelta(minutes=1)
    other = api.session()
    lease = leases.get(other, claim.namespace, claim.name)
    assert lease and lease.live(other.now())


def test_keeper_without_namespace_ends_with_the_reason(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(*_: object) -> None:
        raise NotFound("namespace kubectl-sky does not exist")

    monkeypatch.setattr(leases, "_create", create)
    keeper = LeaseKeeper(api.session(), claims_of(("tasks",), None))
    with pytest.raises(ClusterError, match="namespace kubectl-sky does not exist") as caught:
        keeper.acquire(Event())
    assert "prints the namespace" in caught.value.hint
