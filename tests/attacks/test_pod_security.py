"""Pod Security: privileges that pods drop, and namespaces that admit them."""

import re
import shutil
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.cluster.target import Cluster
from tests.e2e.command import ROOT, Command
from tests.e2e.support import until_deleted
from tests.polling import eventually

EXAMPLES = ROOT / "examples"
LABEL = "pod-security.kubernetes.io/enforce"
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
NON_ROOT = {"runAsUser": 1000, "runAsNonRoot": True}
SHOW = "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status"


def make_text(pod: Mapping[str, Any], main: Mapping[str, Any] | None = None, **head: Any) -> str:
    """Return a task whose pod and container have these security contexts."""
    spec: dict[str, Any] = {"securityContext": pod}
    if main is not None:
        spec["containers"] = [{"securityContext": main}]
    head = {"resources": {"image_id": "busybox:1.36"}, "run": SHOW} | head
    return yaml.safe_dump({**head, "config": {"kubernetes": {"pod_config": {"spec": spec}}}})


def facts(output: str) -> dict[str, str]:
    """Return the fields of /proc/self/status that a pod printed."""
    return dict(re.findall(r"(Seccomp|NoNewPrivs|CapEff):\t(\w+)", output))


def contexts(offline: Command, text: str) -> tuple[Any, Any]:
    """Return the security contexts of the rendered pod, and of its container."""
    done = offline("render", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    *_, job = yaml.safe_load_all(done.stdout)
    spec = job["spec"]["template"]["spec"]
    return spec.get("securityContext"), spec["containers"][0].get("securityContext")


def test_pod_has_runtime_default_seccomp_profile(offline: Command) -> None:
    pod, main = contexts(offline, "run: echo hello\n")
    assert (pod, main) == ({"seccompProfile": {"type": "RuntimeDefault"}}, None)


def test_pod_with_run_as_non_root_drops_privileges(offline: Command) -> None:
    _, main = contexts(offline, make_text(NON_ROOT))
    assert main == CONFINED


def test_pod_with_user_id_only_keeps_sudo(offline: Command) -> None:
    """SkyPilot images run as the user sky, who uses sudo."""
    assert contexts(offline, make_text({"runAsUser": 1000}))[1] is None


@pytest.mark.parametrize(
    ("pod", "main", "expected"),
    [
        ({"seccompProfile": {"type": "Unconfined"}}, None, None),
        (NON_ROOT, {"allowPrivilegeEscalation": True}, True),
        (NON_ROOT, {"privileged": True}, None),
        (NON_ROOT, {"capabilities": {"add": ["SYS_ADMIN"]}}, None),
    ],
)
def test_pod_config_overrides_security_defaults(
    offline: Command, pod: Mapping[str, Any], main: Mapping[str, Any] | None, expected: bool | None
) -> None:
    of_pod, of_main = contexts(offline, make_text(pod, main))
    profile = pod.get("seccompProfile", {"type": "RuntimeDefault"})
    assert of_pod["seccompProfile"] == profile
    assert (of_main or {}).get("allowPrivilegeEscalation") is expected
    assert all(of_main[key] == value for key, value in (main or {}).items() if key == "privileged")


def test_pod_with_null_seccomp_profile_has_none(offline: Command) -> None:
    assert not contexts(offline, make_text({"seccompProfile": None}))[0]


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """Only a real cluster has Pod Security."""
    return real_cluster


@pytest.fixture
def enforced(kubectl: Command, namespace: str, request: pytest.FixtureRequest) -> str:
    """Enforce a Pod Security level in the namespace, and wait until it takes effect."""
    level: str = request.param
    labelled = kubectl("label", "namespace", namespace, f"{LABEL}={level}")
    assert labelled.returncode == 0, labelled.stderr
    spec = {"hostNetwork": True, "containers": [{"name": "a", "image": "a"}]}
    trial = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial"}, "spec": spec}

    def check() -> str:
        done = kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(trial))
        assert f'violates PodSecurity "{level}' in done.stderr, done.stderr
        return level

    return eventually(check)


@pytest.mark.parametrize("enforced", ["baseline"], indirect=True)
@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("name", ["05-multi-node", "13-array"])
def test_baseline_namespace_admits_examples(sky: Command, name: str) -> None:
    done = sky("submit", str(EXAMPLES / f"{name}.yaml"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("enforced", ["restricted"], indirect=True)
@pytest.mark.usefixtures("enforced")
def test_restricted_namespace_runs_non_root_example(sky: Command) -> None:
    done = sky("submit", str(EXAMPLES / "17-without-root.yaml"))
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2 without root" in done.stdout


@pytest.mark.parametrize("enforced", ["restricted"], indirect=True)
@pytest.mark.usefixtures("enforced")
def test_restricted_namespace_runs_task_with_files_and_secrets(
    sky: Command, kubectl: Command
) -> None:
    shutil.copytree(EXAMPLES / "code", sky.folder / "code")
    run = f'test -n "$A" && ls && {SHOW}'
    text = make_text(NON_ROOT, run=run, workdir="code", secrets={"A": "b"}, num_nodes=2)
    done = sky("submit", "-", "--backend", "indexed", "--id", "nonroot1", stdin=text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert facts(done.stdout) == {"CapEff": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    sky("stop", "nonroot1", "-y")
    until_deleted(kubectl, "nonroot1")


@pytest.mark.parametrize("enforced", ["restricted"], indirect=True)
@pytest.mark.usefixtures("enforced")
def test_restricted_namespace_root_task_is_refused_before_sending(
    sky: Command, kubectl: Command
) -> None:
    done = sky("submit", "-", stdin="run: echo hello\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Pod Security level restricted" in done.stderr
    assert "seccompProfile" not in done.stderr
    assert kubectl("get", "jobs,configmaps", "-l", "skypilot-task=true", "-o", "name").stdout == ""


def test_root_task_keeps_privileges(sky: Command) -> None:
    done = sky("submit", "-", stdin=make_text({}))
    assert done.returncode == 0, done.stderr
    status = facts(done.stdout)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("0", "2")
    assert int(status["CapEff"], 16)
