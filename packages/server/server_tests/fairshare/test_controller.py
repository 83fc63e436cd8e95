"""The procedure of fair share, against a cluster in memory: what it counts, writes and refuses."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_sky.cluster.watch import Change, WatchEvent
from kubectl_sky.errors import ClusterError, Forbidden, NotServed
from kubectl_sky.plan.fair_share import LABEL, class_name
from kubectl_sky.words import kinds
from kubectl_sky_server.controllers import loop as loops
from kubectl_sky_server.controllers.loop import Loop
from kubectl_sky_server.fairshare import controller as controller_of
from kubectl_sky_server.fairshare import model_decide as decide
from kubectl_sky_server.fairshare import model_state as state_of
from kubectl_sky_server.fairshare.model_policy import Policy
from server_tests.fairshare.fair_share import ALICE, POLICY, QUEUE, Json, World
from tests.fake_cluster import value_of
from tests.polling import eventually
from tests.reading import read


@pytest.fixture
def world() -> World:
    return World()


def test_pod_group_through_its_phases_lowers_value_then_recovers(world: World) -> None:
    world.group("a")
    world.once()
    assert world.numbers() == (1000, 0, 0), "the class exists before the PodGroup starts"

    first = world.priority_class()["metadata"]["uid"]
    world.group("a", "Running")
    world.once()
    assert world.numbers() == (990, 0, 1)
    assert world.priority_class()["metadata"]["uid"] != first, "deleted and created again"

    world.group("a", "Completed")
    world.once()
    assert world.numbers() == (990, 1, 0)

    world.now += 59
    world.once()
    assert world.numbers() == (990, 1, 0)

    world.now += 1
    world.once()
    assert world.numbers() == (1000, 0, 0)
    assert world.journal() == []
    assert world.priority_class()["preemptionPolicy"] == "Never"


def test_pass_without_difference_writes_nothing(world: World) -> None:
    world.group("a", "Running")
    world.once()
    writes = world.writes
    world.group("a", "Unknown")
    for _ in range(3):
        world.once()
    assert world.writes == writes


def test_phases_missed_while_controller_was_down_are_counted(world: World) -> None:
    world.group("running", "Running")
    world.group("deleted", "Running")
    world.group("pending")
    world.once()
    world.group("running", "Completed")
    world.group("pending", "Completed")
    world.delete_group("deleted")
    world.group("new", "Completed")
    world.once()
    assert world.numbers() == (960, 4, 0)


def test_pod_group_evicted_and_started_again_is_counted_once(world: World) -> None:
    for phase in ("Running", "Pending", "Running", "Completed"):
        world.group("a", phase)
        world.once()
        assert world.numbers()[0] == 990


def test_all_pod_groups_that_changed_make_one_replacement(world: World) -> None:
    world.once()
    for number in range(20):
        world.group(f"g{number}", "Running")
    world.group("g0", "Pending")
    world.once()
    assert world.numbers() == (810, 0, 19)
    deletes = [text for text in world.cluster.writes if text.startswith("delete priority")]
    assert deletes == []


def test_more_finished_pod_groups_than_remembered_are_counted_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_of, "MAX_REMEMBERED", 3)
    for number in range(8):
        world.group(f"g{number}", "Completed")
    world.once()
    for _ in range(3):
        world.once()
    state = world.state()
    assert (state.count, len(state.counted)) == (8, 3)
    assert state.horizon


def test_classes_of_others_and_of_system_are_never_touched(world: World) -> None:
    world.policies = {QUEUE: Policy(classes=("system-node-critical",))}
    forged = {"kubectl-sky/fair-share-queue": QUEUE, "kubectl-sky/fair-share-owner": "alice"}
    untouched = [
        world.put_class("high", 5000),
        world.put_class("system-node-critical", 2_000_001_000),
        world.put_class(ALICE, 7),
        world.put_class("fair-share-x-y", 7, labels={LABEL: "owned"}, annotations=forged),
    ]
    for item in untouched:
        name = item["metadata"]["name"]
        world.group(f"of-{name}", "Running", priorityClassName=name)

    world.once()
    assert [world.priority_class(item["metadata"]["name"]) for item in untouched] == untouched
    assert world.events() == ["PriorityClass NotManaged"]
    assert world.writes == 1, "nothing but the Event"


def test_listed_class_keeps_its_fields_and_history_is_not_counted(world: World) -> None:
    world.policies = {QUEUE: Policy(penalty=10, classes=("high",))}
    world.put_class("high", 5000, labels={"team": "a"}, annotations={"note": "b"})
    world.cluster.change(kinds.PRIORITY_CLASS, "high", description="d", globalDefault=False)
    world.group("old", "Completed", priorityClassName="high", user="")
    world.group("a", "Running", priorityClassName="high", user="bob")
    world.once()
    assert world.numbers("high") == (4990, 0, 1)

    world.group("a", "Completed", priorityClassName="high", user="bob")
    world.once()
    assert world.numbers("high") == (4990, 1, 0)

    sent = [value_of(sent) for sent in world.cluster.sent if sent.method == "POST"]
    (created,) = (body["metadata"] for body in sent if body["kind"] == "PriorityClass")
    assert set(created) == {"name", "labels", "annotations", "namespace"}, "nothing of the server"

    item = world.priority_class("high")
    assert item["metadata"]["labels"] == {"team": "a", LABEL: "listed"}
    assert item["metadata"]["annotations"]["note"] == "b"
    assert (item["description"], item["globalDefault"]) == ("d", False)


def test_pod_group_of_another_owner_or_queue_is_told_and_not_counted(world: World) -> None:
    world.group("a", "Running")
    world.group("b", "Running", user="bob")
    world.group("c", "Running", queue="other")
    controller = world.controller()
    for _ in range(2):
        controller.once()
    assert world.numbers() == (990, 0, 1)
    assert world.events() == ["PodGroup NotCounted"] * 2, "once for each"


def test_pod_groups_of_a_stranger_do_not_delay_classes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is an Event: those come last, and not all at once."""
    monkeypatch.setattr(controller_of, "_MAX_EVENTS", 3)
    for number in range(10):
        world.group(f"stranger-{number}", user="eve")
    world.group("a", "Running")
    controller = world.controller()
    controller.once()
    writes = [text.split()[1] for text in world.cluster.writes]
    assert writes == ["priorityclasses", *["events"] * 3]
    for _ in range(3):
        controller.once()
    assert world.events() == ["PodGroup NotCounted"] * 10


def test_class_per_namespace_ignores_user_label() -> None:
    world = World({QUEUE: Policy(base=1000, penalty=10, floor=0, per="namespace")})
    name = class_name(QUEUE, "kubectl-sky")
    for user in ("alice", "mallory"):
        world.group(user, "Running", priorityClassName=name, user=user)
    world.once()
    assert world.numbers(name) == (980, 0, 2)


def test_value_set_by_another_is_put_back_and_told(world: World) -> None:
    world.group("a", "Running")
    world.once()
    world.cluster.change(kinds.PRIORITY_CLASS, ALICE, value=10**9)
    world.once()
    assert world.numbers() == (990, 0, 1)
    assert world.events() == ["PriorityClass PriorityClassEdited"]


def test_count_set_by_another_is_accepted_and_invalid_one_is_told(world: World) -> None:
    world.group("a", "Completed")
    world.once()
    item = world.priority_class()
    for count, numbers, events in (("0", (1000, 0, 0), []), ("-5", (1000, 0, 0), ["Reset"])):
        item["metadata"]["annotations"]["kubectl-sky/fair-share-count"] = count
        world.cluster.put(item)
        world.once()
        assert world.numbers() == numbers
        assert world.events() == [f"PriorityClass FairShare{event}" for event in events]


def test_class_deleted_by_another_is_created_from_existing_pod_groups(world: World) -> None:
    world.group("a", "Running")
    world.group("b", "Completed")
    world.once()
    world.cluster.remove(kinds.PRIORITY_CLASS, ALICE)
    world.once()
    assert world.numbers() == (980, 1, 1)


def test_settings_changed_apply_to_existing_class(world: World) -> None:
    world.group("a", "Running")
    world.once()
    world.policies = {QUEUE: Policy(base=2000, penalty=500, floor=0)}
    world.once()
    assert world.numbers() == (1500, 0, 1)
    assert world.events() == []


def test_missing_crd_is_cluster_error_and_installed_later_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "_FIRST_RETRY_SECONDS", 0.1)
    world.group("a", "Running")
    world.cluster.kinds.remove(kinds.POD_GROUP)
    with pytest.raises(NotServed, match="Volcano is not installed"):
        world.once()
    loop = Loop(world.controller(), world.cluster.session(), None)
    loop.start()
    try:
        eventually(lambda: world.cluster.count("list priorityclasses") > 1)
        world.cluster.kinds.add(kinds.POD_GROUP)
        eventually(lambda: f"priorityclasses {ALICE}" in world.cluster.names())
    finally:
        loop.stop()
        loop.join(60)


def test_change_of_pod_group_that_matters_wakes_controller(world: World) -> None:
    controller = world.controller()

    def changed(item: Json, type_: Change = Change.MODIFIED) -> bool:
        return bool(
            controller.changed(WatchEvent(type_, kinds.POD_GROUP, read(kinds.POD_GROUP, item)))
        )

    assert changed(world.group("a"))
    assert not changed(world.group("a"))
    assert changed(world.group("a", "Running"))
    assert changed(world.group("a", "Running"), Change.DELETED)
    assert changed(world.group("a", "Running"))
    item = world.put_class(ALICE, 7)
    assert controller.changed(
        WatchEvent(Change.MODIFIED, kinds.PRIORITY_CLASS, read(kinds.PRIORITY_CLASS, item))
    )


def test_error_of_one_class_does_not_stop_others(world: World) -> None:
    bob = class_name(QUEUE, "bob")
    world.group("a", "Running")
    world.group("b", "Running", user="bob", priorityClassName=bob)
    world.cluster.before(f"create priorityclasses {ALICE}", lambda: 403)
    with pytest.raises(Forbidden):
        world.once()
    assert world.numbers(bob) == (990, 0, 1)
    world.once()
    assert world.numbers() == (990, 0, 1)


def test_class_changed_since_it_was_read_is_conflict_and_read_again(world: World) -> None:
    world.group("a", "Running")
    world.once()
    world.group("a", "Completed")
    world.cluster.before(
        f"patch priorityclasses {ALICE}",
        lambda: world.cluster.change(kinds.PRIORITY_CLASS, ALICE, description="new"),
    )
    with pytest.raises(ClusterError):
        world.once()
    world.once()
    assert world.numbers() == (990, 1, 0)
    assert world.priority_class()["description"] == "new"


def scenario(world: World, act: Callable[[], object]) -> tuple[int, int, int]:
    """Change PodGroups, with a pass after each change."""
    steps: list[Callable[[], object]] = [
        lambda: world.group("a"),
        lambda: world.group("a", "Running"),
        lambda: (world.group("b", "Running"), world.group("c", "Running")),
        lambda: world.group("a", "Completed"),
        lambda: world.delete_group("b"),
        lambda: setattr(world, "now", world.now + 61),
        lambda: world.group("d", "Completed"),
        lambda: world.delete_group("a"),
    ]
    for step in steps:
        step()
        act()
    return world.numbers()


def test_killed_at_each_write_ends_as_if_it_was_not_killed() -> None:
    world = World()
    expected = scenario(world, world.once)
    assert expected == (970, 2, 1)
    points = [(number, late) for number in range(1, world.writes + 1) for late in (False, True)]
    assert len(points) >= 30
    for number, late in points:
        world = World()
        kills: list[bool] = []
        world.kill_at(number, late)

        def act(world: World = world, kills: list[bool] = kills) -> None:
            if world.survive():
                kills.append(True)
                world.once()
                world.numbers()

        assert scenario(world, act) == expected, (number, late)
        assert kills == [True]
        assert world.journal() == []


PHASES = st.sampled_from(["Pending", "Running", "Completed", "deleted"])
STEPS = st.lists(
    st.tuples(st.integers(0, 3), PHASES, st.integers(0, 6), st.booleans()), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_killed_anywhere_counts_each_pod_group_that_started_once(
    steps: list[tuple[int, str, int, bool]],
) -> None:
    """The recovery is off: the weight is the number of PodGroups that ever started."""
    world = World({QUEUE: Policy(base=1000, floor=0, penalty=1, recovery_interval=10**8)})
    started: set[str] = set()
    phases: dict[int, str] = {}
    for number, phase, kill, late in steps:
        if phase in ("deleted", "Pending") and number in phases:
            world.once()  # what no controller ever saw cannot be counted
        if phase == "deleted":
            if phases.pop(number, ""):
                world.delete_group(f"g{number}")
        else:
            uid = world.group(f"g{number}", phase)["metadata"]["uid"]
            phases[number] = phase
            started |= {uid} if phase != "Pending" else set()
        world.kill_at(kill, late)
        world.survive()
        world.kill_at(-1, False)
    world.group("last", "Running")
    world.once()

    _, count, running = world.numbers()
    assert count + running == len(started) + 1
    assert world.journal() == []


def journal_entry(world: World) -> str:
    """Kill the controller after it has deleted the class; return the name of the entry."""
    world.group("a")
    world.once()
    world.group("a", "Running")
    world.kill_at(2, late=True)
    assert world.survive()
    assert f"priorityclasses {ALICE}" not in world.cluster.names()
    (entry,) = world.journal()
    return entry.split()[1]


def test_killed_after_delete_and_pod_group_deleted_counts_from_journal(world: World) -> None:
    journal_entry(world)
    world.delete_group("a")
    world.once()
    assert world.numbers() == (990, 1, 0)


def test_class_created_by_another_between_delete_and_create_is_replaced(world: World) -> None:
    journal_entry(world)
    world.put_class(ALICE, 12345)
    world.once()
    assert world.numbers() == (990, 0, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry["data"].pop("class"),
        lambda entry: entry["data"].update({"class": "{"}),
        lambda entry: entry["data"].update({"class": "[]"}),
        lambda entry: entry.pop("data"),
    ],
)
def test_invalid_journal_is_deleted_and_class_created_from_pod_groups(
    world: World, change: Callable[[dict[str, object]], object]
) -> None:
    name = journal_entry(world)
    entry = world.cluster.get(kinds.CONFIG_MAP, name)
    change(entry)
    world.cluster.put(entry)
    world.once()
    assert world.numbers() == (990, 0, 1)
    assert world.journal() == []


def test_second_controller_finishes_entry_of_stalled_one(world: World) -> None:
    world.group("a")
    world.once()
    world.group("a", "Running")
    other = world.controller()
    world.cluster.before(f"delete priorityclasses {ALICE}", other.once)
    world.once()
    assert world.numbers() == (990, 0, 1)
    assert world.journal() == []


def test_stalled_controller_does_not_undo_changes_of_second_one(world: World) -> None:
    world.group("a")
    world.once()
    world.group("a", "Running")

    def overtake() -> None:
        world.once()
        world.group("b", "Running")
        world.once()

    world.cluster.after("create configmaps", overtake)
    with pytest.raises(ClusterError):
        world.once()
    assert world.numbers() == (980, 0, 2)
    assert world.journal() == []


def test_write_that_was_lost_or_unanswered_is_repeated(world: World) -> None:
    world.group("a")
    world.once()
    world.group("a", "Running")
    world.cluster.before("create priorityclasses", lambda: 503)
    world.cluster.after("delete configmaps", lambda: 500)
    for _ in range(3):
        try:
            world.once()
        except ClusterError:
            continue
    assert world.numbers() == (990, 0, 1)
    assert world.journal() == []


def test_value_of_policy_is_sent_as_json_number(world: World) -> None:
    world.group("a", "Running")
    world.once()
    (body,) = [value_of(sent) for sent in world.cluster.sent if sent.method == "POST"]
    assert body["value"] == POLICY.base - POLICY.penalty


def test_invented_users_get_a_limited_number_of_classes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MAX_CLASSES", 2)
    for user in ("alice", "eve1", "eve2", "eve3"):
        world.group(user, user=user, priorityClassName=class_name(QUEUE, user))
    world.once()
    world.once()
    names = [text for text in world.cluster.names() if text.startswith("priorityclasses ")]
    assert len(names) == 2
    assert world.events() == ["PodGroup TooManyClasses"] * 4
    world.group("alice", "Running")
    world.once()
    assert world.numbers() == (990, 0, 1), "existing classes still work"


@pytest.fixture
def full(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A queue whose two classes, of alice and bob, make it full; nothing uses them any more."""
    monkeypatch.setattr(decide, "MAX_CLASSES", 2)
    for user in ("bob", "alice"):
        world.group(user, "Running", user=user, priorityClassName=class_name(QUEUE, user))
        world.once()
        world.now += 1
    for user in ("bob", "alice"):
        world.delete_group(user)
        world.once()
        world.now += 1
    return world


def classes(world: World) -> set[str]:
    names = [text for text in world.cluster.names() if text.startswith("priorityclasses ")]
    return {text.split()[1] for text in names}


def new_class(world: World, user: str) -> str:
    """Let a new user have a PodGroup; return the name of the class that it needs."""
    name = class_name(QUEUE, user)
    world.group(user, user=user, priorityClassName=name)
    world.once()
    return name


def test_full_queue_deletes_class_unused_for_longest(full: World) -> None:
    full.now += POLICY.recovery_interval
    full.once()
    assert classes(full) == {ALICE, class_name(QUEUE, "bob")}, "not before another one is needed"
    carol = new_class(full, "carol")
    assert classes(full) == {ALICE, carol}
    dave = new_class(full, "dave")
    assert classes(full) == {carol, dave}
    full.group("alice", "Running")
    full.once()
    assert classes(full) == {carol, dave} and full.events() == ["PodGroup TooManyClasses"]


def test_full_queue_keeps_class_with_count_or_pod_group_or_of_others(full: World) -> None:
    """A class may be needed, or have to be paid for, or have been taken out of fair share."""
    bob = class_name(QUEUE, "bob")
    assert new_class(full, "carol") not in classes(full), "finished PodGroups lower both values"
    full.now += POLICY.recovery_interval
    full.group("b", user="eve", priorityClassName=bob)  # not counted, but it uses the class
    item = full.priority_class()
    full.cluster.put(item | {"metadata": item["metadata"] | {"labels": {}}})
    full.once()
    assert {ALICE, bob} < classes(full), "the class of alice no longer counts for the limit"
    assert not any(text.startswith("delete priorityclasses") for text in full.cluster.writes[-3:])


def test_full_queue_keeps_class_that_changed_since_it_was_read(full: World) -> None:
    full.now += POLICY.recovery_interval
    bob = class_name(QUEUE, "bob")
    full.cluster.before(
        f"delete priorityclasses {bob}",
        lambda: full.cluster.change(kinds.PRIORITY_CLASS, bob, description="kept"),
    )
    new_class(full, "carol")
    assert full.priority_class(bob)["description"] == "kept"


def test_class_deleted_from_full_queue_is_created_again_without_loss(full: World) -> None:
    full.now += POLICY.recovery_interval
    new_class(full, "carol")
    full.delete_group("carol")
    full.group("b", "Running", user="bob", priorityClassName=class_name(QUEUE, "bob"))
    full.once()
    assert full.numbers(class_name(QUEUE, "bob")) == (990, 0, 1)
    assert full.journal() == []


def test_full_queue_ignores_unused_classes_that_settings_list(world: World) -> None:
    policy = Policy(base=1000, penalty=10, classes=("high",))
    world.policies = {QUEUE: policy}
    world.put_class("high", 5000)
    world.once()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide, "MAX_CLASSES", 0)
        new_class(world, "carol")
    assert classes(world) == {"high"}
