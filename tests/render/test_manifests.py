"""Templates: allowed syntax, used fields, and templates of users."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from kubectl_sky.errors import UserError
from kubectl_sky.plan.accelerators import RequiredLabel
from kubectl_sky.plan.buckets import CsiVolume, Download
from kubectl_sky.plan.environment import RegistryLogin, SecretEnvVar
from kubectl_sky.plan.high_speed_network import HighSpeedNetwork
from kubectl_sky.plan.placement import Preference
from kubectl_sky.plan.plan import Extras, Node, Plan, Toleration
from kubectl_sky.plan.pod_options import PodOptions
from kubectl_sky.plan.ports import Ports
from kubectl_sky.plan.storage import Mount, PodStorage
from kubectl_sky.render import manifests
from kubectl_sky.spec.buckets import Bucket
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Accelerator, Kubernetes, Resources, Task, VolumeMount
from kubectl_sky.spec.variables import RESERVED
from kubectl_sky.spec.volumes import Storage
from kubectl_sky.words import assets
from kubectl_sky.words.secret import Secret
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.service import Replicas
from tests.builders import make_plan

_FOLDER = assets.folder("templates")
TEMPLATES = {
    path.relative_to(_FOLDER).as_posix(): path.read_text() for path in _FOLDER.glob("**/*.j2")
}
KIND = "PersistentVolumeClaim"
FULL = Task(
    name="full",
    num_nodes=2,
    resources=Resources("1", "1Gi", Accelerator(None, 1), "busybox"),
    envs={"A": "kind: Secret\n"},
    secrets={"TOKEN": Secret("s3cr3t")},
    volumes=(VolumeMount("/data", "data", "part"),),
    setup="a\nb\n",
    run="c\n",
)
ZONE = "topology.kubernetes.io/zone"
ELSEWHERE = {
    (Extras, "scripts"),  # covered by Plan.start
    (Extras, "checks"),
    (Extras, "templates"),
    (Extras, "may_drop_capabilities"),
    (Replicas, "notes"),
    (Plan, "nodes"),
    (Plan, "id"),
    (PodOptions, "pod_config"),
    (PodOptions, "queue"),
    (PodOptions, "queueing"),
    (Plan, "backend"),
    (Plan, "task_file"),
    (RegistryLogin, "server"),
    (RegistryLogin, "username"),
    (RegistryLogin, "password"),
    (Node, "index"),
    (PodStorage, "new_pvcs"),
    (PodStorage, "one_cluster_node"),
    (PodStorage, "links"),
    (PodStorage, "annotations"),
    (PodStorage, "logs"),
}


@pytest.mark.parametrize(
    "kind",
    [
        Plan,
        Extras,
        Replicas,
        PodOptions,
        RegistryLogin,
        Node,
        Ports,
        Mount,
        PodStorage,
        Download,
        CsiVolume,
        SecretEnvVar,
        Toleration,
        Preference,
        RequiredLabel,
    ],
    ids=lambda kind: kind.__name__,
)
def test_template_fields_of_plan_are_all_used(kind: type[Struct]) -> None:
    written = "\n".join(TEMPLATES.values())
    inherited = getattr(kind.__base__, "__struct_fields__", ())
    for field in kind.__struct_fields__:
        if field not in inherited and (kind, field) not in ELSEWHERE:
            assert re.search(rf"\.{field}\b", written), f"{kind.__name__}.{field}"


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_has_only_simple_conditions_and_no_arithmetic(name: str) -> None:
    """Decisions belong in the plan."""
    for expression in re.findall(r"{%-? *(?:if|elif|set) ([^%]*)%}", TEMPLATES[name]):
        assert re.fullmatch(r"[a-z_.]+( is (not )?none| or [a-z_.]+)* *-?", expression), expression
    for expression in re.findall(r"{{-?(.*?)-?}}", TEMPLATES[name]):
        code = re.sub(r'"[^"]*"|\*\*(?=\w)', "", expression)
        assert not re.search(r"[-+*/%~<>]| (and|or|if|not) ", code), expression


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_has_no_nested_if(name: str) -> None:
    open_blocks: list[str] = []
    for word in re.findall(r"{%-? *(if|for|macro|endif|endfor|endmacro)\b", TEMPLATES[name]):
        if word.startswith("end"):
            assert open_blocks.pop() == word.removeprefix("end")
            continue
        assert word != "if" or open_blocks[-1:] != ["if"], f"{name}: nested if"
        open_blocks.append(word)


@pytest.mark.parametrize("backend", [name for name in registry.NAMED if name != "volcano"])
def test_render_suspended_task_with_queue_is_suspended_once(backend: str) -> None:
    asked = Kubernetes(queue="q")
    plan = make_plan(Task(run="true", kubernetes=asked, backend=backend))
    held = (plan, structs.replace(plan, suspended=True))
    texts = [manifests.render(each).workload[0].text for each in held]
    assert [text.count("suspend: true") for text in texts] == [1, 1]


def test_render_full_task_has_all_objects() -> None:
    rendered = manifests.render(make_plan(FULL))
    kinds = [manifest.object["kind"] for manifest in rendered.all]
    assert kinds == ["ConfigMap", "ConfigMap", "Secret", "Service", "Job", "Job"]
    again = list(yaml.safe_load_all(manifests.as_yaml(rendered.all)))
    assert again == [manifest.object for manifest in rendered.all]
    data = rendered.auxiliary[0].object["data"]
    assert (data["setup.sh"], data["run.sh"]) == ("a\nb\n", "c\n")
    env = rendered.workload[0].object["spec"]["template"]["spec"]["containers"][0]["env"]
    assert len({variable["name"] for variable in env}) == len(env)


def test_render_ephemeral_volume_is_pvc_with_labels() -> None:
    volumes = (VolumeMount("/a", storage=Storage("1Gi", "fast", ("ReadWriteMany",), {"x": "y"})),)
    rendered = manifests.render(make_plan(Task(volumes=volumes, run="true")))
    (claim,) = (one.object for one in rendered.all if one.object["kind"] == KIND)
    assert claim["metadata"]["name"] == "task-bcdf2345-volume-0"
    assert {"x": "y", "task-id": "bcdf2345"}.items() <= claim["metadata"]["labels"].items()
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    assert [one.object["kind"] for one in rendered.all] == ["ConfigMap", KIND, "Job"]


def test_render_disk_spot_priority_and_ttl_become_pod_fields() -> None:
    asked = Resources(disk="1Ti", spot=True, priority_class="high", ttl_seconds=60)
    (job,) = manifests.render(make_plan(Task(resources=asked, run="true"))).workload
    assert job.object["spec"]["ttlSecondsAfterFinished"] == 60
    pod = job.object["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "high"
    assert pod["containers"][0]["resources"] == {"requests": {"ephemeral-storage": "1Ti"}}
    affinity = pod["affinity"]["nodeAffinity"]
    assert len(affinity["preferredDuringSchedulingIgnoredDuringExecution"]) == 4
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity
    assert {"key", "operator", "value", "effect"} == set(pod["tolerations"][0])


def test_render_recovery_becomes_backoff_limit_and_failure_policy() -> None:
    """Golden files cover the default: no policy and no retries."""
    asked = Resources(recovery=Recovery(3, (33, 34)))
    (job,) = manifests.render(make_plan(Task(resources=asked, run="true"))).workload
    assert job.object["spec"]["backoffLimit"] == 3
    lost, codes = job.object["spec"]["podFailurePolicy"]["rules"]
    assert lost["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert codes["onExitCodes"]["values"] == [33, 34]
    assert {lost["action"], codes["action"]} == {"Ignore"}
    bare = Task(resources=Resources(recovery=Recovery()), run="true")
    (job,) = manifests.render(make_plan(bare)).workload
    assert job.object["spec"]["backoffLimit"] == 3, "of pods that never run"
    _, programs = job.object["spec"]["podFailurePolicy"]["rules"]
    assert programs == {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [128]}}


def test_render_bucket_that_is_refused_starts_nothing_again() -> None:
    buckets = (Bucket("/a", "s3", "box", "MOUNT"),)
    task = Task(resources=Resources(recovery=Recovery(3)), buckets=buckets, run="true")
    (job,) = manifests.render(make_plan(task)).workload
    _, refused = job.object["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": "bucket-0", "operator": "In", "values": [78]}
    assert refused == {"action": "FailJob", "onExitCodes": codes}

    (jobset,) = manifests.render(make_plan(structs.replace(task, backend="jobset"))).workload
    job_spec = jobset.object["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job_spec["podFailurePolicy"]["rules"][1] == refused
    ends, restarts = jobset.object["spec"]["failurePolicy"]["rules"]
    assert (ends["action"], restarts["action"]) == (
        "FailJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
    )
    (pattern,) = ends["onJobFailureMessagePatterns"]
    message = "Container bucket-0 for pod a/b-x failed with exit code 78 matching FailJob rule at"
    assert re.match(pattern, message)
    assert not re.match(pattern, message.replace("bucket-0", "main"))


def test_render_kubernetes_config_becomes_metadata_and_pod_fields() -> None:
    asked = Kubernetes(
        labels={"a": "b", "kueue.x-k8s.io/queue-name": "other"},
        annotations={"c": "d"},
        accounts={"*": "robot"},
        queue="q",
        flex_start=True,
        run_seconds=60,
    )
    (job,) = manifests.render(make_plan(Task(run="true", kubernetes=asked))).workload
    assert job.object["spec"]["suspend"] is True

    metadata = job.object["metadata"]
    pod = job.object["spec"]["template"]
    assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert "kueue.x-k8s.io/queue-name" not in pod["metadata"]["labels"]
    assert metadata["annotations"]["c"] == pod["metadata"]["annotations"]["c"] == "d"
    assert metadata["annotations"]["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] == "60"
    assert pod["spec"]["serviceAccountName"] == "robot"
    assert pod["spec"]["automountServiceAccountToken"] is True
    assert "nodeSelector" not in pod["spec"]

    asked = Kubernetes(flex_start=True)
    (job,) = manifests.render(make_plan(Task(run="true", kubernetes=asked))).workload
    selector = {"cloud.google.com/gke-flex-start": "true"}
    assert job.object["spec"]["template"]["spec"]["nodeSelector"] == selector


NAMES = st.sampled_from([*sorted(RESERVED), "SKYPILOT_TASK_ID", "MASTER_ADDR", "A", "B"])


@given(
    st.dictionaries(NAMES, st.just("x")),
    st.dictionaries(NAMES, st.just(Secret("y"))),
    st.integers(1, 2),
)
def test_render_random_variables_are_written_once(
    envs: dict[str, str | None], secrets: dict[str, Secret | None], nodes: int
) -> None:
    task = Task(num_nodes=nodes, envs=envs, secrets=secrets, run="true")
    rendered = manifests.render(make_plan(task))
    (container,) = rendered.workload[0].object["spec"]["template"]["spec"]["containers"]
    written = {variable["name"]: variable for variable in container["env"]}
    assert len(written) == len(container["env"])
    for name in secrets.keys() - RESERVED:
        assert "valueFrom" in written[name], "the secret overrides envs"
    for name in RESERVED & written.keys():
        assert written[name].get("value") not in ("x", "y")


def test_render_high_speed_network_adds_ipc_lock_and_affinity() -> None:
    resources = Resources(accelerator=Accelerator(None, 1), fast=True)
    plan = make_plan(Task(name="t", num_nodes=2, resources=resources, run="x"))
    fast = structs.replace(plan, network=HighSpeedNetwork("x", one_zone=True))
    for found, capabilities, key in ((plan, [], None), (fast, ["IPC_LOCK"], ZONE)):
        pod = manifests.render(found).workload[0].object["spec"]["template"]["spec"]
        context = pod["containers"][0].get("securityContext") or {"capabilities": {"add": []}}
        assert context == {"capabilities": {"add": capabilities}}
        affinity = pod.get("affinity", {}).get("podAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [{}])
        assert [term.get("topologyKey") for term in terms] == [key]


@pytest.mark.parametrize(
    ("backend", "label"),
    [
        ("jobs", "node-idx"),
        ("volcano", "node-idx"),
        ("indexed", "batch.kubernetes.io/job-completion-index"),
        ("jobset", "batch.kubernetes.io/job-completion-index"),
        ("appwrapper", "batch.kubernetes.io/job-completion-index"),
        ("mpijob", "training.kubeflow.org/replica-index"),
    ],
)
def test_render_ports_service_selects_first_node_of_every_backend(backend: str, label: str) -> None:
    resources = Resources(ports=(80, 443))
    plan = make_plan(Task(name="t", num_nodes=2, resources=resources, run="x", backend=backend))
    found = {manifest.name: manifest.object for manifest in manifests.render(plan).all}
    service = found["Service/t-bcdf2345-ports"]
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": {"skypilot-task": "true", "task-id": "bcdf2345", label: "0"},
        "ports": [{"name": "port-80", "port": 80}, {"name": "port-443", "port": 443}],
    }
    assert service["metadata"]["labels"]["kubectl-sky/ports"] == "true"


def test_secrets_are_redacted() -> None:
    shown = manifests.as_yaml(manifests.render(manifests.redact(make_plan(FULL))).all)
    assert "s3cr3t" not in shown and "czNjcjN0" not in shown
    assert manifests.render(make_plan(FULL)).auxiliary[1].object["data"]["TOKEN"] == "czNjcjN0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: {{ plan.nothing }}",
            "template job.yaml.j2: 'kubectl_sky.plan.plan.Plan object' has no",
        ),
        ("a: b: c", "template job.yaml.j2 does not give YAML"),
        ("{% if %}", "template job.yaml.j2:1: "),
        ("- a", "gives no object"),
        ("kind: Pod\nmetadata: [name]", "gives no object"),
        ("apiVersion: v1\nkind: Alien\nmetadata: {name: x}", "gives a Alien"),
    ],
)
def test_render_invalid_user_template_is_user_error(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "job.yaml.j2").write_text(text)
    with pytest.raises(UserError) as caught:
        manifests.render(make_plan(), tmp_path)
    assert message in str(caught.value)


def test_render_user_template_replaces_built_in(tmp_path: Path) -> None:
    ours = TEMPLATES["job.yaml.j2"].replace("\nspec:\n", "\nspec:\n  suspend: true\n")
    (tmp_path / "job.yaml.j2").write_text(ours)
    (job,) = manifests.render(make_plan(), tmp_path).workload
    assert job.object["spec"]["suspend"] is True
