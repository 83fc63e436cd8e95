"""What a queue of Kueue admits, by quota, cohorts, flavors and taints."""

from collections.abc import Sequence
from typing import Any

import pytest

from kubectl_sky.observe.admission import Outlook, QueueState, admit_all, find_obstacle
from kubectl_sky.plan.quota import Pods
from kubectl_sky.words.pod_objects import PodSpec
from kubectl_sky.words.scheduled_objects import KueueQueue, ResourceFlavor
from tests.reading import read_as, read_list

Json = dict[str, Any]

TAINT = {"key": "spot", "effect": "NoSchedule"}


def make_pods(cpu: str = "1", count: int = 1, memory: str = "", **spec: Any) -> Pods:
    requests = {"cpu": cpu} | ({"memory": memory} if memory else {})
    container = {"name": "main", "resources": {"requests": requests}}
    return Pods(read_as(PodSpec, {"containers": [container], **spec}), count)


def make_group(*flavors: tuple[str, Json]) -> list[Json]:
    """A group of resources; a value is a quota, or the fields of one."""
    items = []
    for name, sizes in flavors:
        resources = [
            {"name": resource, **(size if isinstance(size, dict) else {"nominalQuota": size})}
            for resource, size in sizes.items()
        ]
        items.append({"name": name, "resources": resources})
    return [{"flavors": items}]


def make_queue(name: str, groups: list[Json], used: Json | None = None, **spec: Any) -> Json:
    """A ClusterQueue; `used` has amounts by flavor and resource."""
    totals = [
        {"name": flavor, "resources": [{"name": key, "total": it} for key, it in sizes.items()]}
        for flavor, sizes in (used or {}).items()
    ]
    fields = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    status = {"flavorsReservation": totals}
    return {"metadata": {"name": name}, "spec": fields, "status": status}


def admit(
    workloads: list[list[Pods]],
    queues: list[Json],
    cohorts: Sequence[Json] | None = (),
    flavors: list[Json] | None = None,
) -> tuple[str, tuple[tuple[str, ...], ...], str]:
    """Ask the first queue; return outlook, flavors and reason."""
    items = read_list(KueueQueue, queues)
    known = None if flavors is None else read_list(ResourceFlavor, flavors)
    groups = None if cohorts is None else read_list(KueueQueue, cohorts)
    by_name = None if known is None else {item.metadata.name: item for item in known}
    state = QueueState(items[0], items, groups, by_name)
    found = admit_all(workloads, state, ())
    return found.outlook, found.flavors, found.reason


def make_flavor(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


TWO = make_group(("a", {"cpu": 2}))
LIMITED = make_group(("a", {"cpu": {"nominalQuota": 2, "borrowingLimit": "500m"}}))
LENT = make_group(("a", {"cpu": {"nominalQuota": 4, "lendingLimit": 1}}))


@pytest.mark.parametrize(
    ("workloads", "queues", "outlook", "reason"),
    [
        ([[make_pods("2")]], [make_queue("q", TWO)], "now", ""),
        (
            [[make_pods("3")]],
            [make_queue("q", TWO)],
            "never",
            "cpu: requested 3, at most 2 of flavor a",
        ),
        ([[make_pods("1", 3)]], [make_queue("q", TWO)], "never", "requested 3, at most 2"),
        ([[make_pods("1")]] * 3, [make_queue("q", TWO)], "never", "requested 3, at most 2"),
        (
            [[make_pods("2")]],
            [make_queue("q", TWO, {"a": {"cpu": "1500m"}})],
            "later",
            "1500m more cpu of flavor a",
        ),
        (
            [[make_pods("2")]],
            [
                make_queue("q", TWO, cohortName="all"),
                make_queue("other", make_group(("a", {"cpu": 6})), {"a": {"cpu": 8}}, cohort="all"),
            ],
            "later",
            "2 more cpu of flavor a",
        ),
        (
            [[make_pods("6")]],
            [make_queue("q", TWO, cohort="all"), make_queue("other", LENT, cohort="all")],
            "never",
            "requested 6, at most 3",
        ),
        (
            [[make_pods("3")]],
            [make_queue("q", TWO, cohort="all"), make_queue("other", LENT, cohort="all")],
            "now",
            "",
        ),
        (
            [[make_pods("3")]],
            [make_queue("q", LIMITED, cohort="all"), make_queue("other", TWO, cohort="all")],
            "never",
            "requested 3, at most 2500m",
        ),
        ([[make_pods("1", memory="1Gi")]], [make_queue("q", TWO)], "never", "no quota for memory"),
    ],
)
def test_queue_admits_what_quota_and_cohort_leave(
    workloads: list[list[Pods]], queues: list[Json], outlook: str, reason: str
) -> None:
    found, _, why = admit(workloads, queues)

    assert found == outlook
    assert reason in why


def test_cohorts_of_cohorts_lend_and_borrow() -> None:
    groups = make_group(("a", {"cpu": {"nominalQuota": 1, "borrowingLimit": 2}}))
    cohorts = [
        {"metadata": {"name": "team"}, "spec": {"parentName": "all", "resourceGroups": groups}},
        {"metadata": {"name": "all"}, "spec": {"resourceGroups": make_group(("a", {"cpu": 9}))}},
    ]
    queues = [make_queue("q", TWO, cohortName="team")]

    assert admit([[make_pods("5")]], queues, cohorts)[0] == Outlook.NOW
    outlook, _, why = admit([[make_pods("6")]], queues, cohorts)
    assert (outlook, why) == (Outlook.NEVER, "cpu: requested 6, at most 5 of flavor a")


def test_never_is_not_said_where_the_cohort_may_not_be_read() -> None:
    queues = [make_queue("q", TWO, cohortName="team")]

    assert admit([[make_pods("5")]], queues, None)[0] == Outlook.LATER


def test_one_flavor_has_all_resources_of_a_template() -> None:
    groups = make_group(("a", {"cpu": 4, "memory": "4Gi"}), ("b", {"cpu": 4, "memory": "4Gi"}))
    halves = {"a": {"memory": "4Gi"}, "b": {"cpu": 4}}

    found = admit([[make_pods("2", memory="2Gi")]], [make_queue("q", groups, halves)])

    assert found[0] == Outlook.LATER
    assert found[2] == "2Gi more memory of flavor a or 2 more cpu of flavor b"


def test_templates_of_a_workload_get_a_flavor_each() -> None:
    groups = make_group(("a", {"cpu": 2}), ("b", {"cpu": 2}))

    found = admit([[make_pods("1"), make_pods("2")]], [make_queue("q", groups)])

    assert found[:2] == (Outlook.NOW, (("a",), ("b",)))


def test_flavor_is_taken_before_one_that_borrows_only_if_the_queue_says_so() -> None:
    groups = make_group(("a", {"cpu": 1}), ("b", {"cpu": 4}))
    other = make_queue("other", make_group(("a", {"cpu": 9})), cohort="all")
    own = {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}

    borrows = admit([[make_pods("2")]], [make_queue("q", groups, cohort="all"), other])
    avoids = admit([[make_pods("2")]], [make_queue("q", groups, cohort="all", **own), other])

    assert (borrows[1], avoids[1]) == ((("a",),), (("b",),))


@pytest.mark.parametrize(
    ("flavor", "pod", "outlook", "reason"),
    [
        ({"nodeTaints": [TAINT]}, {}, "never", "flavor a has the taint spot"),
        ({"nodeTaints": [TAINT], "tolerations": [{"operator": "Exists"}]}, {}, "now", ""),
        (
            {"nodeTaints": [TAINT]},
            {"tolerations": [{"key": "spot", "operator": "Exists"}]},
            "now",
            "",
        ),
        ({"nodeLabels": {"gpu": "a100"}}, {"nodeSelector": {"gpu": "h100"}}, "never", "labels"),
        ({"nodeLabels": {"gpu": "a100"}}, {"nodeSelector": {"zone": "b"}}, "now", ""),
    ],
)
def test_flavor_takes_pods_that_its_cluster_nodes_accept(
    flavor: Json, pod: Json, outlook: str, reason: str
) -> None:
    found = admit(
        [[make_pods("1", **pod)]], [make_queue("q", TWO)], (), [make_flavor("a", **flavor)]
    )

    assert found[0] == outlook
    assert reason in found[2]


def test_flavor_that_does_not_exist_admits_nothing() -> None:
    assert admit([[make_pods()]], [make_queue("q", TWO)], (), [])[2] == "flavor a does not exist"


@pytest.mark.parametrize(
    ("spec", "labels", "found"),
    [
        ({}, {}, (Outlook.NOW, "")),
        (
            {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            {"team": "b"},
            (Outlook.NEVER, "ClusterQueue q admits nothing from this namespace"),
        ),
        ({"stopPolicy": "Hold"}, {}, (Outlook.LATER, "queue q is stopped")),
    ],
)
def test_queue_that_admits_nothing_says_why(
    spec: Json, labels: dict[str, str], found: tuple[Outlook, str]
) -> None:
    queue = read_as(KueueQueue, make_queue("q", TWO, **spec))
    local = read_as(KueueQueue, {"metadata": {"name": "local"}, "spec": {"clusterQueue": "q"}})

    assert find_obstacle(local, queue, labels) == found
