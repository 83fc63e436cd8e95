"""An API server that is away for a while, in commands that change something."""

import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from urllib3.exceptions import NewConnectionError

from kubectl_sky.cluster import backoff, errors, session
from kubectl_sky.cluster.transport import Reply, Request
from kubectl_sky.words import kinds
from kubectl_sky_practice.problems import Problem
from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster, interrupt_soon, lost

REFUSED = 12  # connections while the server is away: more than the retries of two requests
FILES = {
    "task.yaml": "name: train\nnum_nodes: 2\nsecrets: {TOKEN: x}\nrun: sleep 600\n",
    "service.yaml": "name: llm\nservice: {replicas: 1}\nresources: {ports: 8000}\nrun: serve\n",
    "service2.yaml": "name: llm\nservice: {replicas: 1}\nresources: {ports: 8000}\nrun: serve 2\n",
}
SUBMIT = f"submit task.yaml --detach --id {ID}"
CREATE = "volumes create data 1Gi --pvc-name data"
UP = "serve up service.yaml --detach"
COMMANDS = {  # what runs before, and the command
    "submit": ("", SUBMIT),
    "stop": (SUBMIT, f"stop {ID}"),
    "volumes create": ("", CREATE),
    "volumes delete": (CREATE, "volumes delete data -y"),
    "serve up": ("", UP),
    "serve update": (UP, "serve update service2.yaml --detach"),
    "serve down": (UP, "serve down llm -y"),
    "users add": ("", "users add bob --cpus 4"),
}
NOTE = "waiting for the API server: connection refused\n"


class Server:
    """The API server of a fake cluster, which can be away."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._answer = cluster.answer
        self._lock = threading.Lock()
        self.refused = 0  # connections that it refuses from now on
        self.answers = 0
        self.leaves: Callable[[Request, int], bool] = lambda request, number: False
        self.loses_answer = False
        self.forever = False
        cluster.answer = self.answer  # type: ignore[method-assign]

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.answers += not self.refused
            if not self.refused and self.leaves(request, self.answers):
                self.refused = REFUSED
                if self.loses_answer:
                    self._answer(request)
                    lost()
            if self.refused:
                self.refused -= not self.forever
                raise NewConnectionError(None, "[Errno 111] Connection refused")  # type: ignore[arg-type]
        return self._answer(request)


@pytest.fixture
def server(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(session, "TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr(backoff, "_MAX_DELAY_SECONDS", 0.01)
    return Server(api)


@pytest.fixture(autouse=True)
def files(run: Run, api: FakeCluster) -> None:
    type_fields = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    api.put(type_fields | {"metadata": {"name": "disk", "annotations": default}})
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    api.kinds |= {kinds.SERVICE_ACCOUNT, kinds.ROLE, kinds.ROLE_BINDING, kinds.NETWORK_POLICY}
    for name, text in FILES.items():
        Path(name).write_text(text)


@pytest.mark.parametrize("loses_answer", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_command_outage_before_any_request_but_the_first_has_the_same_result(
    run: Run, api: FakeCluster, server: Server, command: str, loses_answer: bool
) -> None:
    before, words = COMMANDS[command]
    if before:
        assert run(*before.split())[0] == 0

    start = api.saved()
    server.answers = 0
    code, _, err = run(*words.split())
    assert code == 0, err

    expected = api.names()
    count = server.answers
    server.loses_answer = loses_answer
    for number in range(2, count + 1):
        api.restore(start)
        server.answers = 0
        server.leaves = lambda request, answers: answers == number  # noqa: B023
        code, _, err = run(*words.split())
        assert (code, len(api.names())) == (0, len(expected)), (number, api.requests[-5:], err)
        assert err.count(NOTE) <= 1


def test_rights_that_a_restarted_server_has_not_loaded_are_waited_for(
    run: Run, api: FakeCluster, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is busy, and takes 45 seconds until it is ready."""
    late = [0.0]
    monkeypatch.setattr(session, "monotonic", lambda: monotonic() + late[0])

    def leave(request: Request, number: int) -> bool:
        if not (api.ready and request.method == "POST" and "/jobs" in request.url) or asked:
            return False
        api.ready = False
        api.forbidden = {"get jobs", "create jobs"}
        return True

    def answer(request: Request) -> Reply:
        if request.url.endswith("/readyz"):
            late[0] = 45.0
            api.ready = len(asked) > 3
            api.forbidden = set() if api.ready else api.forbidden
            asked.append(request)
        return server.answer(request)

    asked: list[Request] = []
    server.leaves = leave
    api.answer = answer  # type: ignore[method-assign]
    code, _, err = run(*SUBMIT.split())
    assert code == 0, err
    assert api.count("create jobs") >= 2 and len(asked) > 3


def test_first_request_without_a_server_is_an_error_at_once(run: Run, server: Server) -> None:
    server.leaves = lambda request, answers: answers == 1
    code, _, err = run("list")
    assert (code, NOTE in err) == (3, False)
    assert "connection refused" in err
    assert server.refused > 0


def test_outage_in_list_is_noted_once(run: Run, server: Server) -> None:
    server.leaves = lambda request, answers: answers == 2
    code, _, err = run("list")
    assert (code, err.count(NOTE)) == (0, 1)


def test_outage_longer_than_the_limit_names_the_task_and_both_ways(
    run: Run, api: FakeCluster, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TIMEOUT_SECONDS", 0.05)
    server.leaves = lambda request, answers: request.method == "PATCH"
    server.forever = True
    code, _, err = run(*SUBMIT.split(), "--context", "prod", "-n", "default")
    assert code == 3
    jobs = f"configmaps train-{ID}, jobs.batch train-{ID}-node-0, jobs.batch train-{ID}-node-1"
    assert f"connection refused; could not be deleted: {jobs} and 2 more\n" in err
    ways = f"run `kubectl sky stop {ID} -n default --context prod`, or submit again with --id {ID}"
    assert err.endswith(f"hint: task {ID} may run: {ways}\n")

    server.forever = False
    server.refused = 0
    server.leaves = lambda request, answers: False
    assert run(*SUBMIT.split())[0] == 0
    assert len([name for name in api.names() if name.startswith("jobs ")]) == 2


@pytest.mark.parametrize("request_", ["/configmaps/train-", "/jobs?"])
def test_outage_that_is_interrupted_ends_at_once_and_names_what_remains(
    run: Run, server: Server, request_: str
) -> None:
    """In the middle of the creates, and when the owners are set."""
    left = threading.Event()

    def leave(request: Request, answers: int) -> bool:
        is_gone = request_ in request.url and request.method != "GET"
        if is_gone and not left.is_set():
            left.set()
            interrupt_soon()
        return is_gone

    server.leaves = leave
    server.forever = True
    started = monotonic()
    code, _, err = run(*SUBMIT.split())
    assert code == 130
    assert monotonic() - started < 20  # less than the limit of an outage
    assert NOTE in err
    assert "interrupted" in err
    assert f"could not be deleted: configmaps train-{ID}" in err


def conflict(plural: str, name: str) -> None:
    what = f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified;'
    message = f"{what} please apply your changes to the latest version and try again"
    kind, _, group = plural.partition(".")
    details = {"name": name, "kind": kind, "group": group}
    raise Problem(409, "Conflict", message, details)


QUOTAS = [("resourcequotas", "team"), ("clusterresourcequotas.quota.openshift.io", "team")]


@pytest.mark.parametrize(("plural", "name"), QUOTAS)
@pytest.mark.parametrize("request_", ["create jobs", "create secrets", "patch services"])
def test_quota_in_conflict_is_tried_again(
    run: Run, api: FakeCluster, server: Server, request_: str, plural: str, name: str
) -> None:
    for number in range(1, 5):
        api.before(request_, lambda: conflict(plural, name), number)
    code, _, err = run(*SUBMIT.split())
    assert code == 0, err
    assert NOTE not in err
    assert api.count(request_) > 4
    assert api.count("get jobs") == 0  # nothing can have been created


def test_quota_that_stays_in_conflict_is_named(
    run: Run, api: FakeCluster, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_BUSY_SECONDS", 0.05)
    for number in range(1, 200):
        api.before("create jobs", lambda: conflict(*QUOTAS[0]), number)
    code, _, err = run(*SUBMIT.split())
    assert code == 3
    assert 'error: quota "team" is busy: other requests change it at the same time; ' in err
    assert "the created objects were deleted again" in err
    assert not [name for name in api.names() if ID in name]


def test_quota_in_conflict_that_is_interrupted_ends_at_once(
    run: Run, api: FakeCluster, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_BUSY_SECONDS", 60.0)

    def refuse_and_interrupt() -> None:
        interrupt_soon()
        conflict(*QUOTAS[0])

    api.before("create jobs", refuse_and_interrupt)
    for number in range(2, 10_000):
        api.before("create jobs", lambda: conflict(*QUOTAS[0]), number)
    started = monotonic()
    code, _, err = run(*SUBMIT.split())
    assert (code, monotonic() - started < 30) == (130, True)
    assert "the created objects were deleted again" in err


@pytest.mark.parametrize(
    "message",
    [
        "resource quota evaluation timed out",
        "Internal error occurred: resource quota evaluation timed out",
        "etcdserver: request timed out",
        "etcdserver: leader changed",
        "rpc error: code = Unavailable desc = transport is closing",
    ],
)
@pytest.mark.parametrize("request_", ["create jobs", "create secrets", "patch services"])
def test_storage_that_fails_for_a_moment_is_tried_again(
    run: Run, api: FakeCluster, server: Server, request_: str, message: str
) -> None:
    def fail() -> None:
        raise Problem(500, "InternalError", message)

    for number in range(1, 5):
        api.before(request_, fail, number)
    code, _, err = run(*SUBMIT.split())
    assert code == 0, err
    assert api.count(request_) > 4


@pytest.mark.parametrize("status", [502, 503, 504])
def test_create_behind_a_proxy_that_is_away_is_sent_until_it_has_an_effect(
    run: Run, api: FakeCluster, server: Server, status: int
) -> None:
    for number in range(1, 8):
        api.before("create jobs", lambda: status, number)
    code, _, err = run(*SUBMIT.split())
    assert code == 0, err


def test_top_of_a_cluster_without_metrics_server_does_not_wait(
    run: Run, api: FakeCluster, server: Server
) -> None:
    """The API server answers for its metrics API as if it were away itself."""
    assert run(*SUBMIT.split())[0] == 0
    api.start(f"train-{ID}-node-0")
    api.kinds.add(kinds.POD_METRICS)
    for number in range(1, 20):
        api.before("list pods", lambda: 503 if "metrics" in api.sent[-1].url else None, number)
    _, _, err = run("top", ID)
    assert api.count("list pods") > 4
    assert NOTE not in err
