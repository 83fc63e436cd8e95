"""`pod_config` is merged into pods."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.errors import UserError
from kubectl_sky.plan.pod_options import pod_config_patch
from kubectl_sky.render import manifests, writer
from kubectl_sky.render.pod_config import apply, merge
from kubectl_sky.spec.task import Accelerator, Kubernetes, Resources, Task
from tests.builders import make_plan

Json = dict[str, Any]


def pod_of(config: Json, **task: Any) -> Json:
    plan = make_plan(Task(run="true", kubernetes=Kubernetes(pod=config), **task))
    job, *_ = manifests.render(plan).workload
    assert yaml.safe_load(job.text) == job.object
    assert (job.object["apiVersion"], job.object["kind"]) == ("batch/v1", "Job")
    template: Json = job.object["spec"]["template"]
    return template


def main_of(config: Json, **task: Any) -> Json:
    found: Json = pod_of({"spec": {"containers": [config]}}, **task)["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("name", [{}, {"name": "ray-node"}, {"name": "main"}])
def test_pod_config_container_is_merged_into_main(name: Json) -> None:
    container = main_of({**name, "imagePullPolicy": "Never", "tty": True})
    assert (container["name"], container["imagePullPolicy"]) == ("main", "Never")
    assert container["command"] == ["/bin/sh", "-c"]


def test_pod_config_other_container_is_added() -> None:
    spec = pod_of({"spec": {"containers": [{"name": "side", "image": "x"}]}})["spec"]
    assert [one["name"] for one in spec["containers"]] == ["main", "side"]


def test_pod_config_variable_replaces_existing() -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "A", "valueFrom": reference}, {"name": "SKYPILOT_USER", "value": "7"}]
    found = {one["name"]: one for one in main_of({"env": env}, envs={"A": "1"})["env"]}
    assert found["A"] == {"name": "A", "valueFrom": reference}
    assert found["SKYPILOT_USER"] == {"name": "SKYPILOT_USER", "value": "alice@example.com"}


def test_pod_config_volumes_and_mounts_are_merged() -> None:
    config = {
        "spec": {
            "volumes": [
                {"name": "shared-memory", "emptyDir": {"sizeLimit": "8Gi"}},
                {"name": "cache", "hostPath": {"path": "/c"}},
            ],
            "containers": [{"volumeMounts": [{"name": "cache", "mountPath": "/dev/shm"}]}],
        }
    }
    spec = pod_of(config, resources=Resources(accelerator=Accelerator(None, 1)))["spec"]
    volumes = {one.pop("name"): one for one in spec["volumes"]}
    assert volumes["shared-memory"] == {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    assert volumes["cache"] == {"hostPath": {"path": "/c"}}

    mounts = {one["mountPath"]: one["name"] for one in spec["containers"][0]["volumeMounts"]}
    assert mounts.pop("/kubectl-sky") == "kubectl-sky"
    assert mounts == {"/etc/kubectl-sky": "scripts", "/dev/shm": "cache"}

    other = {"name": "shared-memory", "hostPath": {"path": "/c"}}
    spec = pod_of(
        {"spec": {"volumes": [other]}}, resources=Resources(accelerator=Accelerator(None, 1))
    )["spec"]
    assert other in spec["volumes"], "the user's volume replaces ours"


def test_pod_config_lists_are_merged_or_replaced() -> None:
    taint = {"key": "a", "operator": "Exists"}
    base = {"tolerations": [taint], "imagePullSecrets": [{"name": "x"}]}
    patch = {"tolerations": [taint, {"key": "b"}], "imagePullSecrets": []}
    assert merge(base, patch) == {"tolerations": [taint, {"key": "b"}], "imagePullSecrets": []}


@pytest.mark.parametrize(
    ("field", "base", "patch", "expected"),
    [
        (
            "topologySpreadConstraints",
            [{"topologyKey": "zone"}],
            [{"topologyKey": "zone", "maxSkew": 2}],
            [{"topologyKey": "zone", "maxSkew": 2}],
        ),
        (
            "containers",
            [{"name": "side"}, {"name": "main"}],
            [{"name": "main", "tty": True}],
            [{"name": "side"}, {"name": "main", "tty": True}],
        ),
        ("containers", [{"name": "own"}], [{"tty": True}], [{"name": "own", "tty": True}]),
    ],
)
def test_merged_item_is_found_by_its_identity(
    field: str, base: list[Json], patch: list[Json], expected: list[Json]
) -> None:
    assert merge({field: base}, {field: patch}) == {field: expected}


def test_pod_config_null_removes_field() -> None:
    assert "enableServiceLinks" not in pod_of({"spec": {"enableServiceLinks": None}})["spec"]
    assert merge({}, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}


@pytest.mark.parametrize(
    "field",
    ["containers", "initContainers", "volumes", "restartPolicy", "hostname", "subdomain"],
)
def test_pod_config_null_keeps_field_that_pods_need(field: str) -> None:
    assert pod_of({"spec": {field: None}}, num_nodes=2) == pod_of({}, num_nodes=2)


def test_pod_config_restart_policy_of_tasks_is_not_for_services() -> None:
    assert pod_config_patch({"spec": {"restartPolicy": "Never"}}) == {}


def test_pod_config_node_affinity_terms_are_combined() -> None:
    def rule(key: str) -> Json:
        return {"key": key, "operator": "Exists"}

    base = {"nodeSelectorTerms": [{"matchExpressions": [rule("a")]}, {"matchFields": [rule("b")]}]}
    patch = {"nodeSelectorTerms": [{"matchExpressions": [rule("z")]}]}
    assert merge(base, patch)["nodeSelectorTerms"] == [
        {"matchExpressions": [rule("a"), rule("z")]},
        {"matchFields": [rule("b")], "matchExpressions": [rule("z")]},
    ]


def test_pod_config_reserved_metadata_is_kept() -> None:
    labels = {"task-id": "zzzz2345", "team": "x"}
    metadata = {"labels": labels, "annotations": {"kubectl-sky/name": "x", "a": "b"}, "name": "y"}
    found = pod_of({"metadata": metadata})["metadata"]
    assert (found["labels"]["task-id"], found["labels"]["team"]) == ("bcdf2345", "x")
    assert found["annotations"] == {"a": "b"}
    assert "name" not in found


def test_pod_config_with_service_account_mounts_token() -> None:
    assert pod_of({"spec": {"serviceAccountName": "a"}})["spec"]["automountServiceAccountToken"]
    told = {"serviceAccountName": "a", "automountServiceAccountToken": False}
    assert not pod_of({"spec": told})["spec"]["automountServiceAccountToken"]


def test_pod_config_is_applied_to_nested_pods() -> None:
    pod = {"spec": {"containers": [{"name": "main"}]}}
    outer = {"spec": {"components": [{"template": {"spec": {"tasks": [{"template": pod}]}}}]}}
    found = apply(outer, {"spec": {"hostNetwork": True}})
    (component,) = found["spec"]["components"]
    assert component["template"]["spec"]["tasks"][0]["template"]["spec"]["hostNetwork"] is True
    assert "hostNetwork" not in json.dumps(outer), "the input is not changed"


def test_pod_config_with_incompatible_template_is_user_error() -> None:
    with pytest.raises(
        UserError, match=r"spec\.tolerations: the template has a map here, not a li"
    ):
        apply({"spec": {"containers": [], "tolerations": {}}}, {"spec": {"tolerations": []}})


KEYS = st.sampled_from(
    [
        "spec",
        "containers",
        "name",
        "env",
        "value",
        "valueFrom",
        "volumes",
        "emptyDir",
        "hostPath",
        "mountPath",
        "volumeMounts",
        "ip",
        "command",
        "args",
        "tolerations",
        "key",
        "imagePullSecrets",
        "labels",
        "hostAliases",
        "ports",
        "containerPort",
    ]
)
NAMES = st.sampled_from(["main", "ray-node", "a", "b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | NAMES | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)
MAPS = st.dictionaries(KEYS, VALUES, max_size=5)


@given(MAPS, MAPS)
def test_merged_random_maps_are_stable_and_inputs_unchanged(base: Json, patch: Json) -> None:
    before = copy.deepcopy((base, patch))
    try:
        once = merge(merge(base, patch), patch)  # containers without names are matched then
        twice = merge(once, patch)
    except UserError:
        once = twice = {}
    assert (base, patch) == before
    assert once == twice


@given(st.recursive(VALUES, lambda inner: st.dictionaries(st.text(max_size=6), inner, max_size=3)))
def test_writer_random_value_is_read_back_equal(value: Any) -> None:
    assert yaml.safe_load(writer.document(value)) == value


def test_pod_on_the_hosts_network_uses_the_dns_of_the_cluster() -> None:
    spec = pod_of({"spec": {"hostNetwork": True}})["spec"]
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
    spec = pod_of({"spec": {"hostNetwork": True, "dnsPolicy": "None"}})["spec"]
    assert spec["dnsPolicy"] == "None"


def test_mount_of_a_volume_that_the_pod_lacks_is_an_error_with_its_path() -> None:
    mounts = [{"name": "scripts", "mountPath": "/s"}, {"name": "a", "mountPath": "/a"}]
    with pytest.raises(UserError) as error:
        pod_of({"spec": {"containers": [{"volumeMounts": mounts}]}})
    assert "containers[0].volumeMounts[1].name: the pod has no volume" in error.value.what
    volume = {"name": "a", "emptyDir": {}}
    assert pod_of({"spec": {"volumes": [volume], "containers": [{"volumeMounts": mounts}]}})
