"""What quotas and LimitRanges allow a submit: requested, used and limit of each resource."""

from fractions import Fraction
from typing import Any

import pytest

from kubectl_sky.errors import Refused
from kubectl_sky.plan.quota import Demand, Pods, PodStep, check, list_unlimited
from kubectl_sky.plan.resources import PodResources, show
from kubectl_sky.words.core_objects import LimitRange, ResourceQuota
from tests.reading import read_as, read_list, read_spec

Json = dict[str, Any]


def make_quota(hard: Json, used: Json | None = None, name: str = "few", **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }


def make_limits(**item: Any) -> Json:
    limits = [{"type": "Container", **item}]
    return {"metadata": {"name": "bounds"}, "spec": {"limits": limits}}


def make_pod(
    requests: Json | None = None, limits: Json | None = None, init: Json | None = None, **spec: Any
) -> Json:
    containers = [{"name": "main", "resources": {"requests": requests, "limits": limits}}]
    before = [{"name": "fetch", "resources": {"requests": init}}] if init else []
    return {"containers": containers, "initContainers": before, **spec}


SMALL = make_pod({"cpu": "1500m", "memory": "1Gi"}, {"nvidia.com/gpu": "2"})


def make_demand(spec: Json = SMALL, count: int = 4, objects: Json | None = None) -> Demand:
    amounts = {name: Fraction(size) for name, size in (objects or {}).items()}
    return Demand((PodStep((Pods(read_spec(spec), count),)),), amounts)


def refusal(demand: Demand, *quotas: Json, limits: Json | None = None) -> str:
    """Return what the check reports; empty if it passes."""
    ranges = [limits] if limits else []
    try:
        check(demand, read_list(ResourceQuota, quotas), read_list(LimitRange, ranges))
    except Refused as error:
        return error.what
    return ""


def test_check_hint_names_namespace_of_quota() -> None:
    quota = make_quota({"cpu": "1"})
    quota["metadata"]["namespace"] = "team"
    with pytest.raises(Refused) as refused:
        check(make_demand(), [read_as(ResourceQuota, quota)])
    assert "`kubectl sky users show -n team`" in refused.value.hint


@pytest.mark.parametrize(
    ("hard", "message"),
    [
        ({"cpu": "4"}, "quota few is too small: cpu: requested 6, used 0 of 4"),
        ({"requests.cpu": "5999m"}, "requests.cpu: requested 6, used 0 of 5.999"),
        ({"requests.memory": "4095Mi"}, "requests.memory: requested 4Gi, used 0 of 4095Mi"),
        (
            {"requests.nvidia.com/gpu": "7"},
            "requests.nvidia.com/gpu: requested 8, used 0 of 7",
        ),
        ({"pods": "3"}, "pods: requested 4, used 0 of 3"),
    ],
)
def test_quota_smaller_than_all_nodes_is_refused(hard: Json, message: str) -> None:
    assert message in refusal(make_demand(), make_quota(hard))


@pytest.mark.parametrize(
    "quota",
    [
        make_quota({}),
        make_quota({"cpu": "6", "memory": "4Gi", "pods": "4", "services": "0"}),
        make_quota({"cpu": "10", "pods": "10"}, {"cpu": "4", "pods": "6"}),
        make_quota({"requests.amd.com/gpu": "0"}),
        make_quota({"cpu": "not a quantity"}),
        {"metadata": {"name": "new"}, "spec": {"hard": {"pods": "4"}}},  # without status
    ],
)
def test_quota_large_enough_is_accepted(quota: Json) -> None:
    assert refusal(make_demand(), quota) == ""


def test_list_unlimited_names_what_no_quota_limits() -> None:
    limited = {"cpu": "1", "requests.memory": "1Gi", "requests.amd.com/gpu": "0", "pods": "5"}
    items = [make_quota(limited), make_quota({"count/services": "1", "configmaps": "9"})]
    quotas = read_list(ResourceQuota, items)
    assert list_unlimited(quotas) == ("storage", "PVCs")


def test_quota_used_by_other_tasks_is_refused_with_usage() -> None:
    quota = make_quota({"cpu": "7", "pods": "9"}, {"cpu": "1500m", "pods": "6"})
    assert refusal(make_demand(), quota).splitlines() == [
        "quota few is full: cpu: requested 6, used 1.5 of 7",
        "quota few is full: pods: requested 4, used 6 of 9",
    ]


def test_quota_several_quotas_report_line_per_resource() -> None:
    quotas = (make_quota({"cpu": "1"}, name="b"), make_quota({"pods": "1"}, name="a"))
    lines = refusal(make_demand(), *quotas).splitlines()
    assert [line.split(" is too small")[0] for line in lines] == ["quota a", "quota b"]


def test_quota_of_resubmit_checks_only_limit() -> None:
    quota = make_quota({"pods": "4"}, {"pods": "4"})
    check(make_demand(), [read_as(ResourceQuota, quota)], is_new=False)
    with pytest.raises(Refused, match="requested 5, used 0 of 4"):
        check(make_demand(count=5), [read_as(ResourceQuota, quota)], is_new=False)


def test_quota_later_stage_is_counted_separately() -> None:
    first = PodStep((Pods(read_spec(SMALL), 2),))
    later = PodStep((Pods(read_spec(SMALL), 3),), starts_now=False)
    quota = make_quota({"pods": "3"}, {"pods": "1"})
    assert refusal(Demand((first, later)), quota) == ""
    assert "requested 2, used 2 of 3" in refusal(
        Demand((first, later)), make_quota({"pods": "3"}, {"pods": "2"})
    )
    assert "requested 3, used 0 of 2" in refusal(Demand((first, later)), make_quota({"pods": "2"}))


@pytest.mark.parametrize(
    ("starts_now", "hard", "message"),
    [
        ([False], "4", ""),
        ([False], "3", "count/pods: requested 4, used 0 of 3"),
        ([True], "4", "count/pods: requested 4, used 1 of 4"),
        ([True, False], "4", "count/pods: requested 4, used 1 of 4"),
        ([], "4", "count/pods: requested 4, used 1 of 4"),
    ],
)
def test_quota_pod_count_of_queued_task_is_refused_only_over_limit(
    starts_now: list[bool], hard: str, message: str
) -> None:
    steps = tuple(PodStep((Pods(read_spec(SMALL), 1),), starts_now=value) for value in starts_now)
    demand = Demand(steps, {"count/pods": Fraction(4)})
    reported = refusal(demand, make_quota({"count/pods": hard}, {"count/pods": "1"}))
    assert reported.removeprefix("quota few is ").partition(": ")[2] == message


def test_quota_object_counts_are_added_to_usage() -> None:
    quota = make_quota({"count/jobs.batch": "5"}, {"count/jobs.batch": "2"})
    demand = make_demand(objects={"count/jobs.batch": 4})
    assert refusal(demand, quota) == (
        "quota few is full: count/jobs.batch: requested 4, used 2 of 5"
    )
    assert refusal(demand, make_quota({"count/jobs.batch": "4"})) == ""


@pytest.mark.parametrize(
    ("scope", "spec", "counts"),
    [
        ({"scopes": ["Terminating"]}, make_pod(), False),
        ({"scopes": ["Terminating"]}, make_pod(activeDeadlineSeconds=9), True),
        ({"scopes": ["NotTerminating"]}, make_pod(), True),
        ({"scopes": ["BestEffort"]}, SMALL, False),
        ({"scopes": ["BestEffort"]}, make_pod(limits={"nvidia.com/gpu": "1"}), True),
        ({"scopes": ["NotBestEffort"]}, SMALL, True),
        ({"scopes": ["NotBestEffort", "Terminating"]}, SMALL, False),
        ({"scopes": ["PriorityClass"]}, make_pod(priorityClassName="high"), True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, SMALL, False),
        ({"scopes": ["OfTheFuture"]}, SMALL, False),
        ({"scopes": ["BestEffort"]}, make_pod(resources={"limits": {"cpu": "1"}}), False),
        ({"scopes": ["BestEffort"]}, make_pod(resources={"limits": {}}), True),
    ],
)
def test_quota_scopes_must_all_match_pod(scope: Json, spec: Json, counts: bool) -> None:
    assert bool(refusal(make_demand(spec), make_quota({"pods": "0"}, **scope))) is counts


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("term", "counts"),
    [
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaces": [], "namespaceSelector": None}, False),
        ({"labelSelector": {"matchLabels": {"app": "namespaceSelector"}}}, False),
    ],
)
def test_quota_cross_namespace_scope_matches_affinity_terms(
    kind: str, term: Json, counts: bool
) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    quota = make_quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    for terms in (required, preferred):
        spec = make_pod(affinity={"nodeAffinity": None, kind: terms})
        assert bool(refusal(make_demand(spec), quota)) is counts


@pytest.mark.parametrize(
    ("operator", "values", "counts"),
    [
        ("In", ["high"], True),
        ("In", ["low"], False),
        ("NotIn", ["low"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_quota_priority_class_scope_matches_pods(
    operator: str, values: list[str], counts: bool
) -> None:
    match = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = make_quota({"pods": "0"}, scopeSelector={"matchExpressions": [match]})
    spec = make_pod(priorityClassName="high")
    assert bool(refusal(make_demand(spec), quota)) is counts


def test_quota_with_scopes_ignores_other_objects() -> None:
    demand = make_demand(make_pod(), objects={"count/jobs.batch": 9})
    assert refusal(demand, make_quota({"count/jobs.batch": "1"}, scopes=["BestEffort"])) == ""


def test_quota_requires_requests_unless_limit_range_sets_them() -> None:
    quota = make_quota({"requests.cpu": "8", "limits.memory": "8Gi"})
    assert refusal(make_demand(make_pod()), quota) == (
        "quota few requires limits.memory, requests.cpu: set cpus and memory under resources,"
        " without +"
    )
    assert refusal(make_demand(make_pod()), make_quota({"cpu": "8"})) == (
        "quota few requires cpu: set cpus and memory under resources"
    )
    defaults = make_limits(defaultRequest={"cpu": "500m"}, default={"memory": "1Gi"})
    assert refusal(make_demand(make_pod()), quota, limits=defaults) == ""
    assert "limits.memory: requested 9Gi, used 0 of 8Gi" in refusal(
        make_demand(make_pod(), 9), quota, limits=defaults
    )
    check(make_demand(make_pod()), [read_as(ResourceQuota, quota)], None)  # they may have defaults


def test_quota_does_not_require_container_requests_with_pod_level_resources() -> None:
    quota = make_quota({"requests.cpu": "8", "limits.memory": "8Gi"})
    spec = make_pod(resources={"requests": {"cpu": "1"}})
    assert refusal(make_demand(spec), quota) == ""
    assert "requests.cpu: requested 9, used 0 of 8" in refusal(make_demand(spec, 9), quota)
    assert "requires limits.memory" in refusal(make_demand(make_pod(resources={})), quota)


@pytest.mark.parametrize(("requests", "total"), [(None, Fraction(4)), ({"cpu": "1"}, Fraction(1))])
def test_pod_total_with_pod_level_limit_defaults_missing_requests(
    requests: Json | None, total: Fraction
) -> None:
    spec = make_pod(requests, resources={"limits": {"cpu": "4"}})
    assert PodResources(read_spec(spec)).total("requests")["cpu"] == total
    assert PodResources(read_spec(spec)).total("limits")["cpu"] == 4


@pytest.mark.parametrize(("sidecar_first", "total"), [(True, Fraction(5)), (False, Fraction(4))])
def test_pod_total_with_sidecar_counts_it_beside_later_init_containers(
    sidecar_first: bool, total: Fraction
) -> None:
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    init = {"resources": {"requests": {"cpu": "4"}}}
    spec = make_pod({"cpu": "1"})
    spec["initContainers"] = [sidecar, init] if sidecar_first else [init, sidecar]
    assert PodResources(read_spec(spec)).total("requests") == {"cpu": total}


def test_pod_total_is_maximum_of_init_and_main_containers() -> None:
    spec = make_pod({"cpu": "1", "memory": "1Gi"}, init={"cpu": "3"})
    total = PodResources(read_spec(spec)).total("requests")
    assert total == {"cpu": Fraction(3), "memory": Fraction(2**30)}
    pod_level = {"resources": {"requests": {"cpu": "9"}}}
    assert PodResources(read_spec(spec | pod_level)).total("requests")["cpu"] == 9


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"max": {"cpu": "1"}}, "cpu requested 1500m, maximum 1 per Container"),
        ({"min": {"memory": "2Gi"}}, "memory requested 1Gi, minimum 2Gi per Container"),
        ({"min": {"ephemeral-storage": "1Gi"}}, "ephemeral-storage requires a request of at least"),
        ({"type": "Pod", "max": {"nvidia.com/gpu": "1"}}, "requested 2, maximum 1 per Pod"),
        ({"max": {"hugepages-2Mi": "1Gi"}}, "hugepages-2Mi requires a limit of at most 1Gi"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, "cpu limit is more than 2 times the request"),
        ({"maxLimitRequestRatio": {"memory": "2"}}, "memory requires a request and a limit"),
        (
            {"maxLimitRequestRatio": {"ephemeral-storage": "2"}},
            "ephemeral-storage requires a request and a limit per Container",
        ),
    ],
)
def test_limit_range_violation_is_refused(item: Json, message: str) -> None:
    spec = make_pod({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1500m", "nvidia.com/gpu": "2"})
    what = refusal(make_demand(spec), limits=make_limits(**item))
    assert what.startswith("LimitRange bounds: ") and message in what
    assert "\n" not in what


def test_limit_range_too_large_pvc_is_refused() -> None:
    demand = Demand((), claims=({"storage": Fraction(2**31)},))
    limits = make_limits(type="PersistentVolumeClaim", max={"storage": "1Gi"})
    assert "storage requested 2Gi, maximum 1Gi per PersistentVolumeClaim" in refusal(
        demand, limits=limits
    )


def test_limit_range_with_enough_room_is_accepted() -> None:
    limits = make_limits(min={"cpu": "1m"}, max={"cpu": "2", "memory": "2Gi"}, default={"cpu": "2"})
    spec = make_pod({"cpu": "1"}, {"cpu": "1", "memory": "1Gi"})
    assert refusal(make_demand(spec), limits=limits) == ""


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("requests.cpu", Fraction(1, 2), "500m"),
        ("memory", Fraction(2**30), "1Gi"),
        ("requests.nvidia.com/gpu", Fraction(1024), "1024"),
        ("requests.storage", Fraction(1000), "1k"),
    ],
)
def test_amounts_have_unit_of_resource(resource: str, amount: Fraction, text: str) -> None:
    assert show(resource, amount) == text


def make_pods(cpu: str, count: int = 1) -> Pods:
    return Pods(read_spec({"containers": [{"resources": {"requests": {"cpu": cpu}}}]}), count)
