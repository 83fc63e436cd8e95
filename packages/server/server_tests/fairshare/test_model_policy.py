"""Policies of fair share: values within Kubernetes' bounds, and their recovery."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.actions import config
from kubectl_sky.errors import InvalidFiles, UserError
from kubectl_sky.plan.fair_share import class_name, priority_class
from kubectl_sky.words.settings import Settings
from kubectl_sky_server.fairshare.model_policy import Curve, Policy, policies, policy

VALUES = st.integers(-(2**31), 10**9)
POLICIES = st.builds(
    lambda curve, bounds, numbers, percent: Policy(
        curve, max(bounds), min(bounds), numbers[0], percent, numbers[1], numbers[2]
    ),
    st.sampled_from(Curve),
    st.tuples(VALUES, VALUES),
    st.tuples(*[st.integers(1, 10**9)] * 3),
    st.integers(1, 100),
)


@given(POLICIES, st.integers(0, 10**9), VALUES)
def test_value_of_any_weight_stays_within_floor_and_base(
    policy: Policy, weight: int, base: int
) -> None:
    value = policy.value(weight)
    assert policy.floor <= value <= policy.base
    assert policy.value(weight + 1) <= value
    assert policy.value(0) == policy.base
    assert min(policy.floor, base) <= policy.value(weight, base) <= base


@given(POLICIES, st.integers(0, 10**9), st.integers(0, 10**10), st.integers(0, 10**10))
def test_recovery_in_two_parts_equals_recovery_at_once(
    policy: Policy, count: int, first: int, second: int
) -> None:
    once = policy.recover(count, 0, first + second)
    parts = policy.recover(*policy.recover(count, 0, first), first + second)
    assert once[0] == parts[0] <= count
    assert policy.recover(0, 0, first)[0] == 0


@pytest.mark.parametrize(
    ("curve", "values"),
    [
        ("linear", [1000, 900, 800, 700]),
        ("half-life", [1000, 900, 800, 700]),
        ("exponential", [1000, 910, 829, 756]),
    ],
)
def test_value_per_policy_follows_its_curve(curve: str, values: list[int]) -> None:
    policy = Policy(Curve(curve), base=1000, floor=100, penalty=100, percent=10)
    assert [policy.value(weight) for weight in range(4)] == values
    assert policy.value(10_000) == 100


def test_recovery_linear_forgets_step_per_interval_and_half_life_halves() -> None:
    linear = Policy(recovery_interval=60, recovery_step=2)
    counts = [linear.recover(5, 1000, 1000 + 30 * half)[0] for half in range(8)]
    assert counts == [5, 5, 3, 3, 1, 1, 0, 0]
    assert linear.restart(5, 1000, 1030) == 1030, "a PodGroup starts the interval again"
    halved = Policy(Curve.HALF_LIFE, recovery_interval=60)
    assert [halved.recover(9, 0, 60 * number)[0] for number in range(5)] == [9, 4, 2, 1, 0]
    assert halved.restart(5, 1000, 1030) == 1000, "half-life goes on"
    assert halved.restart(0, 1000, 1030) == 1030


def test_recovery_with_clock_set_back_starts_interval_now() -> None:
    assert Policy().recover(5, 10_000, 100) == (5, 100)


@pytest.mark.parametrize(
    "fields",
    [{"floor": 2, "base": 1}, {"base": 10**9 + 1}, {"floor": -(2**31) - 1}, {"percent": 101}],
)
def test_policy_outside_bounds_is_user_error(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="fair share: "):
        policy(fields)


def test_settings_fair_share_is_validated_and_read() -> None:
    text = b"fair_share: {gpu: {policy: half-life, base: 50, floor: 1, classes: [high]}}"
    read = policies(config.read(text, "settings.yaml"))
    assert read == {"gpu": Policy(Curve.HALF_LIFE, 50, 1, classes=("high",))}
    for wrong in (b"{policy: square}", b"{base: 1000000001}", b"{classes: [system-x]}", b"{a: 1}"):
        with pytest.raises(InvalidFiles):
            config.read(b"fair_share: {gpu: " + wrong + b"}", "settings.yaml")


def test_class_names_are_valid_and_differ() -> None:
    pairs = [("a-b", "c"), ("a", "b-c"), ("Q" * 300, "üser@example.com"), ("a", ""), ("a", "B-c")]
    made = [class_name(queue, owner) for queue, owner in pairs]
    assert len(set(made)) == len(made)
    for name, other in itertools.product(made, repeat=2):
        assert len(name) < 80 and name.replace("-", "").isalnum() and name.islower()
        assert name == other or not name.startswith(other)


def test_priority_class_of_task_depends_on_queue_and_owner() -> None:
    settings = Settings(fair_share={"default": {}, "gpu": {"per": "namespace"}})
    assert priority_class(settings, "other", "alice", "team") is None
    assert priority_class(settings, None, "alice", "team") == class_name("default", "alice")
    assert priority_class(settings, "gpu", "alice", "team") == class_name("gpu", "team")
