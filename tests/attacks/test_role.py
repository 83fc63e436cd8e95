"""The Role of `doctor --role`: enough for every command, without unneeded rights."""

import json
import os
import re
import select
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kubectl_sky.cli.main import COMMANDS
from kubectl_sky.cluster import access, errors
from kubectl_sky.cluster.errors import RequestInfo
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.observe import rights
from kubectl_sky.observe.rights import EXTRAS, Right
from kubectl_sky.words import kinds
from kubectl_sky.workloads import registry
from tests.attacks.roles import assert_allowed, grant, missing_rights, printed_role, without
from tests.cluster.marks import ON_REAL
from tests.cluster.target import ADMIN, Cluster
from tests.e2e.command import Command, Done
from tests.e2e.support import submit, until_running
from tests.e2e.terminal import on_terminal
from tests.polling import eventually

pytestmark = pytest.mark.timeout(900)  # dozens of commands a test
Json = dict[str, Any]

IMAGE = "resources: {image_id: 'busybox:1.36', ports: 8080}\n"
ALL = (
    f"name: all\nnum_nodes: 2\n{IMAGE}secrets: {{A: b}}\nvolumes: {{/v: data, /s: {{size: 1Gi}}}}\n"
    "workdir: code\nfile_mounts: {/tmp/big: big}\n"
    "run: test -s /tmp/big && cat hello && echo done on $NODE_RANK\n"
)
SMALL = "name: small\nnum_nodes: 2\nsecrets: {A: b}\nworkdir: code\nvolumes: {/s: {size: 1Gi}}\n"
SMALL += f"{IMAGE}run: cat hello\n"
PIPELINE = "name: turn\n---\nname: one\nrun: echo first\n---\nname: two\nrun: echo second\n"
GROUP = (
    "name: duet\nexecution: parallel\n---\nname: one\nrun: echo one\n---\nname: two\nrun: echo\n"
)
KEPT = f"name: kept\n{IMAGE}run: echo\nconfig: {{kubernetes: {{pod_config: {{spec: {{containers: ["
KEPT += "{name: side, image: 'busybox:1.36', command: [sleep, '600']}]}}}}\n"
LONG = f"name: long\n{IMAGE}run: echo started; sleep 600\n"
FAILING = f"name: fails\nnum_nodes: 2\n{IMAGE}run: test $NODE_RANK = 0 || exit 3; sleep 600\n"
OFFLINE = {
    "init",
    "validate",
    "explain",
    "render",
    "local",
    "auth",
    "config",
    "version",
    "completion",
    "options",
}
ADMINS = {"api", "dashboard", "controllers"}  # with other rights, tested elsewhere


@pytest.mark.practice_only
def test_doctor_without_rights_lists_missing_rights(alice: Command) -> None:
    done = alice("doctor")
    assert done.returncode == 3
    assert "get configmaps" in done.stdout and "--role" in done.stdout
    assert "unknown: you may not list them" in done.stdout, "neither nodes nor storage classes"
    assert "no default StorageClass" not in done.stdout


@pytest.mark.practice_only
def test_role_has_no_wildcards_and_no_list_of_secrets(alice: Command, role: list[Json]) -> None:
    assert "*" not in json.dumps(role)
    verbs = {
        verb
        for rule in role[0]["rules"]
        if "secrets" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert verbs == {"create", "delete", "get", "patch"}
    assert role[1]["subjects"][0]["kind"] == "User"
    rows = missing_rights(alice)
    assert rows and {row["extra"] for row in rows} <= set(EXTRAS)
    assert alice("doctor").returncode == 0


@dataclass(frozen=True)
class Step:
    """A command line and its expected result."""

    line: str
    stdin: str = ""
    says: str = ""
    codes: tuple[int, ...] = (0,)


STEPS = (
    Step("volumes create data 1Gi"),
    Step("volumes list", says="data"),
    Step("volumes status data"),
    Step("submit - --dry-run=client", ALL),
    Step("submit - --dry-run=server", ALL),
    Step("submit - --id allall01", ALL, "done on 1"),
    Step("submit - --id allall01", ALL, "unchanged"),
    Step("diff - --id allall01", ALL),
    Step("submit -", PIPELINE, "second"),
    Step("submit -", GROUP),
    Step("submit - --backend indexed", SMALL),
    Step("submit - --array 0-1", f"{IMAGE}run: echo\n"),
    Step("submit -", FAILING, "stopped", (4,)),
    Step("submit - --detach --id longlong", LONG),
    Step("dev --idle 1h --image busybox:1.36 --id devdevde"),
    Step("dev ssh-config devdevde --public-key key.pub", codes=(0, 2)),  # 2: no sshd
    Step("validate --live -", SMALL, says="1 file valid"),
    Step("list"),
    Step("list -o json"),
    Step("status allall01"),
    Step("logs allall01", says="done on 0"),
    Step("logs -f allall01", says="done on 0"),
    Step("wait allall01"),
    Step("compare allall01 longlong", says="long"),
    Step("run -d -- true"),
    Step("rerun"),
    Step("doctor"),
    Step("doctor allall01", says="list them: Node\n"),
    Step("status longlong --ports"),
    Step("wait longlong --timeout 2s", codes=(1,)),
    Step("exec longlong -- true"),
    Step("cp code longlong:/tmp"),
    Step("cp longlong:/tmp/code back"),
    Step("cp code vol/data:code --yes"),
    Step("volumes ls data --yes", says="code"),
    Step("volumes du data --yes", says="code"),
    Step("port-forward longlong :8080", says="Forwarding from"),
    Step("stacks longlong", says="sleep 600"),
    Step("top longlong", says="no metrics API", codes=(3,)),
    Step("top longlong --gpu", says="nvidia-smi and rocm-smi not found", codes=(3,)),
    Step("queues list", says="Kueue is not installed", codes=(3,)),
    Step("gpus", says="may not list nodes", codes=(3,)),
    Step("usage", says="counted: 0 tasks with GPUs"),
    Step("users show", says="No quota"),
    Step("stop longlong devdevde -y"),
    Step("stop --leftovers -y", says="secrets are not cleaned"),
    Step("stop --leftovers --older-than 0s -y"),
    Step("volumes apply larger.yaml", codes=(0, 3)),  # not every storage class expands
    Step("volumes delete data --force"),
)


def test_role_steps_cover_every_command() -> None:
    # serve: by --with serve; tests/e2e/test_serve.py. ui: test_role_is_enough_for_ui.
    apart = {"serve", "ui"}
    assert {step.line.split()[0] for step in STEPS} | OFFLINE | ADMINS | apart == set(COMMANDS)


@pytest.mark.usefixtures("role")
def test_role_is_enough_for_every_command(alice: Command) -> None:
    """Submit every kind of task and run every command on it; no request is forbidden."""
    for step in STEPS:
        done = attempt(alice, tuple(step.line.split()), step.stdin)
        output = done.stdout + done.stderr
        assert done.returncode in step.codes, (step.line, output)
        assert step.says in output, (step.line, output)
        assert step.codes == (3,) or "may not" not in output.replace("you may not", ""), output
        assert "Traceback" not in output


@pytest.mark.usefixtures("role")
def test_role_is_enough_for_ui(alice: Command) -> None:
    assert_allowed(alice("submit", "-", "--detach", "--id", "longlong", stdin=LONG))
    with on_terminal(alice, 120, 40) as terminal:
        terminal.shows("longlong", "running")
        terminal.press("n")
        terminal.shows("may not list namespaces", ":ns NAME")
        terminal.press("\x1b")
        terminal.shows("1 task")
        terminal.press("l")
        terminal.shows("started")
        terminal.press("\x1b")
        terminal.shows("1 task")
        terminal.press("d")
        terminal.shows("is running", "not checked, because you may not list them: Node")
        terminal.press("\x1b")
        terminal.shows("1 task")
        terminal.press("\x0b")
        terminal.shows("Stop this task")
        terminal.press("y")
        terminal.shows("stopped")
        terminal.press("q")

    assert terminal.written.count("may not") == terminal.written.count("may not list")


@pytest.mark.practice_only
def test_role_with_extra_rights_lacks_none(
    alice: Command, kubectl: Command, namespace: str
) -> None:
    items = printed_role(alice, "--with", "clean,cluster,serve")
    kinds_ = [item["kind"] for item in items]
    assert kinds_ == ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]

    for item in items[2:]:  # tests have separate namespaces but share a cluster
        item["metadata"]["name"] += f"-{namespace}"
    items[3]["roleRef"]["name"] = items[2]["metadata"]["name"]
    grant(kubectl, items)
    try:
        eventually(lambda: not missing_rights(alice))
        assert "not cleaned" not in assert_allowed(alice("clean", "-y")).stderr
        assert_allowed(alice("gpus"))
        assert "unknown" not in assert_allowed(alice("doctor")).stdout
    finally:
        for item in items[2:]:
            kubectl("delete", item["kind"], item["metadata"]["name"])


def test_role_with_unknown_extra_rights_is_refused(offline: Command) -> None:
    done = offline("doctor", "--role", "--with", "clean,all")
    assert done.returncode == 2 and "clean, cluster" in done.stderr
    assert offline("doctor", "--with", "clean").returncode == 2


def make_limits(kind: str, **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "small"}, "spec": spec}


@dataclass(frozen=True)
class Proof:
    """A command that fails or prints less without a right; `tells` detects this.

    `also` are rights that are taken as well, so that the command comes so far; `limits` is a
    ResourceQuota or LimitRange of the namespace at the same time.
    """

    command: tuple[str, ...]
    stdin: str = ""
    tells: Callable[[Done], bool] | None = None
    also: tuple[str, ...] = ()
    limits: Json | None = None


DETACHED = Proof(("submit", "-", "--detach"), SMALL)
UNDONE = Proof(
    ("submit", "-", "--detach"),
    SMALL,
    lambda done: "could not be deleted" in done.stderr,
    ("create jobs.batch",),
)
AGAIN = Proof(("submit", "-", "--id", "present1", "--detach"), SMALL)
PROOFS: dict[str, Proof] = {
    "list jobs.batch": Proof(("list",)),
    "watch jobs.batch": Proof(("wait", "longlong", "--timeout", "3s")),
    "create jobs.batch": DETACHED,
    "patch jobs.batch": Proof(("submit", "-"), PIPELINE),
    "delete jobs.batch": Proof(("stop", "longlong", "-y")),
    "list pods": Proof(("list",)),
    "watch pods": Proof(("wait", "longlong", "--timeout", "3s")),
    "patch pods": Proof(("submit", "-"), KEPT),
    "create pods": Proof(
        DETACHED.command,
        LONG,
        lambda done: done.returncode == 0,
        also=("list resourcequotas",),
        limits=make_limits("ResourceQuota", hard={"pods": "0"}),
    ),
    "get pods/log": Proof(("logs", "present1")),
    "get pods/exec": Proof(("exec", "longlong", "--", "true")),
    "create pods/exec": Proof(("exec", "longlong", "--", "true")),
    "get pods/portforward": Proof(("port-forward", "longlong", ":8080")),
    "create pods/portforward": Proof(("port-forward", "longlong", ":8080")),
    "create configmaps": DETACHED,
    "patch configmaps": DETACHED,
    "delete configmaps": UNDONE,
    "get configmaps": DETACHED,
    "list configmaps": AGAIN,
    "create secrets": DETACHED,
    "patch secrets": DETACHED,
    "delete secrets": UNDONE,
    "get secrets": AGAIN,
    "create services": DETACHED,
    "patch services": DETACHED,
    "delete services": UNDONE,
    "list services": Proof(("status", "longlong", "--ports")),
    "list persistentvolumeclaims": Proof(("volumes", "list")),
    "create persistentvolumeclaims": Proof(("volumes", "create", "new", "1Gi")),
    "patch persistentvolumeclaims": DETACHED,
    "delete persistentvolumeclaims": Proof(("volumes", "delete", "data", "--force")),
    "list events": Proof(("doctor", "longlong"), tells=lambda done: "Event" in done.stdout),
    "list resourcequotas": Proof(
        ("submit", "-", "--dry-run=server"),
        f"num_nodes: 90\n{IMAGE}run: echo\n",
        lambda done: done.returncode == 0,
        limits=make_limits("ResourceQuota", hard={"pods": "80"}),
    ),
    "list limitranges": Proof(
        ("submit", "-", "--dry-run=server"),
        f"{IMAGE.rstrip()[:-1]}, cpus: 2}}\nrun: echo\n",
        lambda done: done.returncode == 0,
        also=("create pods",),
        limits=make_limits("LimitRange", limits=[{"type": "Container", "max": {"cpu": "1"}}]),
    ),
}
# Kubernetes requires "create" since 1.35; the practice cluster behaves like older versions.
NEWER = ("create pods/exec", "create pods/portforward")
APPLIED = ("create configmaps", "patch configmaps", "delete configmaps")
# Used only if the watch is late, a log connection or a cluster node is lost; tested with those.
FALLBACK = {"get pods", "delete pods"}
BUILT_IN = {str(right): right for right in rights.list_served({}) if not right.extra}


def test_role_rights_all_have_proof() -> None:
    assert set(PROOFS) | FALLBACK == set(BUILT_IN)


def test_role_rights_cover_every_backend() -> None:
    served = rights.list_served({kind.group: (kind.version,) for kind in vars_of_kinds()})
    groups = {right.kind.group for right in served}
    assert {kind.group for kind in (*registry.KINDS, *registry.COMPANION_KINDS)} <= groups
    known = {(right.kind, right.verb) for right in served}
    for kind in registry.KINDS:
        assert {(kind, verb) for verb in ("list", "watch", "create", "patch", "delete")} <= known


@pytest.mark.parametrize("name", ["exec", "portforward"])
def test_forbidden_stream_without_reason_names_right(name: str) -> None:
    """As Kubernetes 1.35 answers without the right "create"."""
    info = RequestInfo("GET", f"/api/v1/namespaces/team/pods/train/{name}", "https://cluster")
    status = {"reason": "Forbidden", "message": 'pods "train" is forbidden: '}
    problem = errors.refuse(info, 403, json.dumps(status).encode())
    assert str(problem).startswith(f"forbidden: you may not create pods/{name} in namespace team")


def vars_of_kinds() -> list[kinds.Kind]:
    return [kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)]


def is_forbidden(right: Right) -> Callable[[Done], bool]:
    return lambda done: f"may not {right.verb} {right.resource}" in done.stderr


@pytest.fixture
def tasks(alice: Command, role: list[Json]) -> None:
    """Create a volume, a completed task and a running task."""
    assert_allowed(alice("volumes", "create", "data", "1Gi"))
    submit(alice, LONG, "longlong")
    assert_allowed(alice(*AGAIN.command, stdin=SMALL))
    assert_allowed(alice("wait", "present1"))
    until_running(alice, "longlong")


@dataclass(frozen=True)
class Trial:
    """Alice with a Role that is changed; the API server asks her session what she may do."""

    alice: Command
    kubectl: Command
    role: list[Json]
    admin: Session
    session: Session

    def take(self, *rights: Right, check: Right, expected: bool) -> None:
        """Grant the Role without some rights, and wait until the API server knows it so."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.session.namespace}/roles"
        changed, _ = without(self.role, *rights)
        self.admin.send(
            "PATCH",
            f"{path}/{changed['metadata']['name']}",
            body={"rules": changed["rules"]},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        review = self.session, check.verb, check.kind, check.subresource
        eventually(lambda: access.may(*review) is expected)

    def needed(self, name: str) -> bool:
        """Return whether a command fails or prints less only without a right."""
        right = BUILT_IN[name]
        proof = PROOFS[name]
        also = [BUILT_IN[other] for other in proof.also]
        tells = proof.tells or is_forbidden(right)

        if proof.limits:
            self.kubectl("create", "-f", "-", stdin=json.dumps(proof.limits))
            until_counted(self.kubectl, proof.limits["kind"])

        self.take(right, *also, check=right, expected=False)
        lacking = attempt(self.alice, proof.command, proof.stdin)
        assert "Traceback" not in lacking.stderr

        if proof.tells:
            self.take(*also, check=right, expected=True)
            done = attempt(self.alice, proof.command, proof.stdin)
            assert not tells(done), (name, done.stdout, done.stderr)

        if proof.limits:
            self.kubectl("delete", proof.limits["kind"], "small")
        return tells(lacking)


@pytest.fixture
def trial(
    tasks: None, alice: Command, kubectl: Command, role: list[Json], cluster: Cluster
) -> Iterator[Trial]:
    connections = (
        Connection(kubeconfig=str(cluster.kubeconfig), context=ADMIN),
        Connection(kubeconfig=alice.environment["KUBECONFIG"]),
    )
    admin, session = map(Session.connect, connections)
    yield Trial(alice, kubectl, role, admin, session)
    admin.close()
    session.close()


@pytest.mark.practice_only
@pytest.mark.parametrize("part", range(2))
def test_role_without_any_right_makes_command_fail(trial: Trial, part: int) -> None:
    """Remove the rights in turn; with all rights the same command succeeds."""
    names = [name for name in PROOFS if name not in NEWER][part::2]
    assert [name for name in names if not trial.needed(name)] == []


@ON_REAL
def test_role_without_version_dependent_right_makes_command_fail(trial: Trial) -> None:
    """Streams, and objects that server-side apply makes and changes."""
    assert [name for name in (*NEWER, *APPLIED) if not trial.needed(name)] == []


def until_counted(kubectl: Command, kind: str) -> None:
    """Wait until a quota is in force."""
    if kind == "ResourceQuota":
        eventually(lambda: kubectl.json("get", "quota", "small").get("status", {}).get("used"))


def attempt(alice: Command, command: tuple[str, ...], stdin: str) -> Done:
    """Run a command until it exits; for port-forward, connect to the port."""
    if command[0] != "port-forward":
        return alice(*command, stdin=stdin)
    process = alice.start(*command)
    assert process.stderr
    stderr = process.stderr.fileno()
    printed = ""
    while not (address := re.search(r"from (127\.0\.0\.1):(\d+)", printed)):
        printed += (chunk := os.read(stderr, 65536).decode())
        assert chunk, printed
    with socket.create_connection((address[1], int(address[2]))):
        # until it says that it may not forward, or that nothing listens in the pod
        while all(line.startswith(("Forwarding", "Handling")) for line in printed.splitlines()):
            ready, _, _ = select.select([stderr], [], [], 20)
            if not ready or not (chunk := os.read(stderr, 65536).decode()):
                break
            printed += chunk
    process.send_signal(signal.SIGINT)
    output, rest = process.communicate(timeout=60)
    return Done(command, process.returncode, output, printed + rest)
