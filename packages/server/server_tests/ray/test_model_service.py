"""The RayService of a graph: its manifest, its differences, and what KubeRay makes of an edit."""

import copy
from typing import Any

import pytest

from kubectl_sky.words import names
from kubectl_sky.words.task_objects import RayServeGraph
from kubectl_sky_server.ray import model_service as service
from kubectl_sky_server.ray.model_service import Effect, InvalidTemplate
from server_tests.ray.graphs import make_pod, make_spec
from tests.reading import read_as

Json = dict[str, Any]


def make_graph(spec: Json | None = None, name: str = "fruit") -> Json:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": "1-2-3"},
        "spec": {"rayService": {"spec": spec or make_spec(), "metadata": {"labels": {"a": "b"}}}},
    }


def head(spec: Json) -> Json:
    pod: Json = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    return pod


def test_ray_service_mounts_builder_into_all_groups() -> None:
    manifest = service.ray_service(read_as(RayServeGraph, make_graph()), "config")
    groups = manifest["spec"]["rayClusterConfig"]
    for group in (groups["headGroupSpec"], *groups["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert pod["volumes"] == [
            {"name": "kubectl-sky-graph", "configMap": {"name": "fruit-graph-builder"}}
        ]
        assert pod["containers"][0]["env"] == [{"name": "PYTHONPATH", "value": "/etc/kubectl-sky"}]
    assert manifest["spec"]["serveConfigV2"] == "config"
    assert manifest["metadata"]["labels"] == {"a": "b", names.RAY_SERVE_GRAPH: "fruit"}
    assert service.is_controlled_by(manifest, read_as(RayServeGraph, make_graph()))
    assert service.is_controlled_by(
        service.builder(read_as(RayServeGraph, make_graph())), read_as(RayServeGraph, make_graph())
    )


def test_ray_service_keeps_template_unchanged_and_python_path() -> None:
    spec = make_spec()
    head(spec)["containers"][0]["env"] = [{"name": "PYTHONPATH", "value": "/app"}]
    graph = make_graph(spec)
    before = copy.deepcopy(graph)
    manifest = service.ray_service(read_as(RayServeGraph, graph), "config")
    (variable,) = head(manifest["spec"])["containers"][0]["env"]
    assert variable["value"] == "/app:/etc/kubectl-sky"
    assert graph == before


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"serveConfigV2": "x"}, "serveConfigV2 comes from the graph"),
        ({"rayClusterConfig": None}, "rayClusterConfig is not set"),
        ({"rayClusterConfig": []}, "rayClusterConfig is not a map"),
        ({"rayClusterConfig": {"headGroupSpec": {"template": {"spec": 1}}}}, "spec is not a map"),
        (
            {"rayClusterConfig": {"headGroupSpec": {"template": {"spec": {"containers": []}}}}},
            "containers is empty",
        ),
        (
            {"rayClusterConfig": {"headGroupSpec": {"template": make_pod(env=[1])}}},
            "env is not a map",
        ),
        (
            {"rayClusterConfig": {"headGroupSpec": {"template": make_pod(env={"a": 1})}}},
            "env is not a list",
        ),
        (
            {
                "rayClusterConfig": {
                    "headGroupSpec": {"template": make_pod(env=[{"name": "PYTHONPATH"}])}
                }
            },
            "PYTHONPATH needs a plain value",
        ),
        (
            {"rayClusterConfig": {"headGroupSpec": {}, "workerGroupSpecs": {"a": 1}}},
            "is not a list",
        ),
    ],
)
def test_ray_service_invalid_template_names_field(spec: Json, message: str) -> None:
    with pytest.raises(InvalidTemplate, match=message):
        service.ray_service(read_as(RayServeGraph, make_graph(spec)), "config")


@pytest.mark.parametrize("name", ["x" * 48, "a.b", "1a"])
def test_ray_service_name_that_kuberay_refuses_is_refused(name: str) -> None:
    with pytest.raises(InvalidTemplate, match="is not a valid name of a RayService"):
        service.ray_service(read_as(RayServeGraph, make_graph(name=name)), "config")


def test_differences_ignores_defaults_but_not_edits() -> None:
    desired = service.ray_service(read_as(RayServeGraph, make_graph()), "config")
    live = copy.deepcopy(desired)
    live["spec"]["rayClusterConfig"]["suspend"] = True
    live["metadata"] |= {"finalizers": ["ray.io/x"], "ownerReferences": []}
    head(live["spec"])["containers"][0]["imagePullPolicy"] = "Always"
    assert service.differences(desired, live) == []
    head(live["spec"])["containers"].append({"name": "sidecar"})
    live["spec"]["serveConfigV2"] = "other"
    head_path = "spec.rayClusterConfig.headGroupSpec.template.spec.containers"
    assert service.differences(desired, live) == [head_path, "spec.serveConfigV2"]
    assert service.was_applied(desired, live)


def test_rewritten_by_kuberay_is_no_difference_and_no_change() -> None:
    """KubeRay's own update writes empty maps, drops false, and writes quantities its way."""
    spec = make_spec()
    head(spec)["containers"][0]["resources"] = {"limits": {"cpu": 1, "memory": "1024Mi"}}
    spec["excludeHeadPodFromServeSvc"] = False
    desired = service.ray_service(read_as(RayServeGraph, make_graph(spec)), "config")
    live = copy.deepcopy(desired)
    del live["spec"]["excludeHeadPodFromServeSvc"]
    head(live["spec"])["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "1Gi"}
    live["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["scaleStrategy"] = {}
    live["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["metadata"] = {}
    assert service.differences(desired, live) == []

    live["spec"]["excludeHeadPodFromServeSvc"] = False
    assert service.classify(live["spec"], desired["spec"]) == []

    head(live["spec"])["containers"][0]["resources"]["limits"]["cpu"] = "2"
    (path,) = service.differences(desired, live)
    assert path.endswith("containers.0.resources.limits.cpu")


def test_differences_removed_field_changes_digest() -> None:
    spec = make_spec()
    spec["excludeHeadPodFromServeSvc"] = True
    live = service.ray_service(read_as(RayServeGraph, make_graph(spec)), "config")
    desired = service.ray_service(read_as(RayServeGraph, make_graph()), "config")
    digest = f"metadata.annotations.{names.RAY_DIGEST}"
    assert service.differences(desired, live) == [digest]
    assert not service.was_applied(desired, live)


def effects(**edits: Any) -> list[str]:
    """Return the effects of edits: paths with underscores for dots, and values."""
    before = make_spec() | {"serveConfigV2": "a"}
    after = copy.deepcopy(before)
    for path, value in edits.items():
        *parents, last = path.split("__")
        item: Any = after
        for name in parents:
            item = item[int(name)] if name.isdigit() else item[name]
        item[last] = value
    return [str(change.effect) for change in service.classify(before, after)]


GROUP = "rayClusterConfig__workerGroupSpecs__0__"
HEAD = "rayClusterConfig__headGroupSpec__template__spec__"
NEW = str(Effect.NEW_CLUSTER)
SAME = str(Effect.IN_PLACE)
NONE = str(Effect.IGNORED)


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({}, []),
        ({"serveConfigV2": "b"}, [SAME]),
        ({"excludeHeadPodFromServeSvc": True}, [SAME]),
        ({"rayClusterDeletionDelaySeconds": 5}, [SAME]),
        ({"serveService": {"spec": {}, "kind": "Service"}}, [NONE]),
        ({f"{GROUP}replicas": 2}, [NONE]),
        ({f"{GROUP}maxReplicas": 9, f"{GROUP}minReplicas": 0}, [NONE]),
        ({f"{GROUP}scaleStrategy": {"workersToDelete": ["a"]}}, [NONE]),
        ({f"{HEAD}tolerations": [{"key": "a"}]}, [NONE]),
        ({f"{HEAD}nodeSelector": {"a": "b"}}, [NEW]),
        ({f"{GROUP}rayStartParams": {"num-cpus": "1"}}, [NEW]),
        ({f"{GROUP}replicas": 2, "rayClusterConfig__rayVersion": "2.51.0"}, [NEW]),
        ({"rayClusterConfig__rayVersion": "2", "serveConfigV2": "b"}, [NEW, SAME]),
        ({"rayClusterConfig__workerGroupSpecs": []}, [NEW]),
        ({"rayClusterConfig__suspend": True}, [SAME]),
        ({"rayClusterConfig__upgradeStrategy": {"type": "Recreate"}}, [NONE]),
        ({"rayClusterConfig__rayVersion": "2", "upgradeStrategy": {"type": "None"}}, [NONE, SAME]),
    ],
)
def test_classify_edit_follows_kuberay(edits: Json, expected: list[str]) -> None:
    assert effects(**edits) == expected


def test_classify_appended_worker_group_is_in_place() -> None:
    groups = make_spec()["rayClusterConfig"]["workerGroupSpecs"]
    more = [*groups, {**groups[0], "groupName": "gpu"}]
    assert effects(rayClusterConfig__workerGroupSpecs=more) == [SAME]
    assert effects(rayClusterConfig__workerGroupSpecs=more[::-1]) == [NEW]


def test_describe_names_fields_and_note() -> None:
    before = make_spec()
    after = make_spec()
    after["rayClusterConfig"]["rayVersion"] = "2.51.0"
    assert service.describe(service.classify(before, after)) == (
        "new RayCluster: spec.rayClusterConfig.rayVersion"
        " (needs resources for a second RayCluster until it serves)"
    )
