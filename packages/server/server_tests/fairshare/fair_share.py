"""A cluster in memory with PodGroups, and a controller of fair share that can be killed."""

from collections.abc import Mapping
from typing import Any

from kubectl_sky.cluster.transport import Reply, Request
from kubectl_sky.plan.fair_share import class_name
from kubectl_sky.words import kinds
from kubectl_sky_server.fairshare.controller import FairShare
from kubectl_sky_server.fairshare.model_policy import Policy
from kubectl_sky_server.fairshare.model_state import State
from tests.fake_cluster import FakeCluster, value_of

Json = dict[str, Any]

QUEUE = "gpu"
ALICE = class_name(QUEUE, "alice")
POLICY = Policy(base=1000, floor=100, penalty=10, recovery_interval=60)


class Killed(BaseException):
    """The process of the controller is killed."""


class World:
    """The cluster, and the time in seconds."""

    def __init__(self, policies: Mapping[str, Policy] | None = None) -> None:
        self.cluster = FakeCluster("kubectl-sky")
        self.cluster.kinds |= {kinds.PRIORITY_CLASS, kinds.POD_GROUP}
        self.policies = policies or {QUEUE: POLICY}
        self.now = 1_000_000.0
        self.writes = 0
        self._kill_at: tuple[int, bool] | None = None
        self._answer = self.cluster.answer
        self.cluster.answer = self._counted  # type: ignore[method-assign]

    def kill_at(self, write: int, late: bool) -> None:
        """Kill the controller at its n-th write from now: before it, or before its answer."""
        self._kill_at = (self.writes + write, late)

    def controller(self) -> FairShare:
        """Return a controller that has just been started."""
        return FairShare(self.cluster.session(), self.policies, lambda: self.now)

    def once(self) -> None:
        """Start a controller and let it do what is due."""
        self.controller().once()

    def survive(self) -> bool:
        """Do what is due with a controller that may be killed; return whether it was."""
        try:
            self.once()
        except Killed:
            return True
        return False

    def group(self, name: str, phase: str = "Pending", **fields: Any) -> Json:
        """Create or change a PodGroup of alice."""
        user = fields.pop("user", "alice")
        spec = {"queue": QUEUE, "priorityClassName": ALICE, "minMember": 1} | fields
        return self.cluster.put(
            {
                "apiVersion": kinds.POD_GROUP.api_version,
                "kind": kinds.POD_GROUP.kind,
                "metadata": {"name": name, "labels": {"username": user}},
                "spec": spec,
                "status": {"phase": phase},
            }
        )

    def delete_group(self, name: str) -> None:
        self.cluster.remove(kinds.POD_GROUP, name)

    def priority_class(self, name: str = ALICE) -> Json:
        return self.cluster.get(kinds.PRIORITY_CLASS, name)

    def put_class(self, name: str, value: int, **metadata: Any) -> Json:
        return self.cluster.put(
            {
                "apiVersion": kinds.PRIORITY_CLASS.api_version,
                "kind": kinds.PRIORITY_CLASS.kind,
                "metadata": {"name": name, **metadata},
                "value": value,
            }
        )

    def state(self, name: str = ALICE) -> State:
        """Return the state of a class, whose value must follow from it."""
        item = self.priority_class(name)
        state = State.read(item["metadata"]["annotations"])
        assert state
        policy = self.policies[QUEUE]
        assert item["value"] == policy.value(state.weight, state.base)
        return state

    def numbers(self, name: str = ALICE) -> tuple[int, int, int]:
        """Return value, count and number of running PodGroups."""
        state = self.state(name)
        return self.priority_class(name)["value"], state.count, len(state.running)

    def events(self) -> list[str]:
        """Return the kind and the reason of all Events that were created."""
        sent = self.cluster.sent
        posts = [item for item in sent if item.method == "POST" and "/events" in item.url]
        bodies = [value_of(item) for item in posts]
        return sorted(f"{body['involvedObject']['kind']} {body['reason']}" for body in bodies)

    def journal(self) -> list[str]:
        return [name for name in self.cluster.names() if name.startswith("configmaps ")]

    def _counted(self, request: Request) -> Reply:
        if request.method == "GET":
            return self._answer(request)
        self.writes += 1
        number, late = self._kill_at or (0, False)
        if number == self.writes and not late:
            raise Killed
        reply = self._answer(request)
        if number == self.writes:
            raise Killed
        return reply
