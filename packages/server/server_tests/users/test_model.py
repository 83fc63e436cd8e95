"""The values of a user's objects: names, limits and default requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.errors import UserError
from kubectl_sky.words import owners
from kubectl_sky_server.users.action import render
from kubectl_sky_server.users.model import (
    DEFAULTS,
    GROUP,
    SERVICE_ACCOUNT,
    USER,
    Account,
    QuotaFlags,
    check_name,
    quota,
)

GPU = "requests.nvidia.com/gpu"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("system:masters", GROUP),
        ("system:serviceaccount:kube-system:default", USER),
        ("system:x", SERVICE_ACCOUNT),
        ("Trainer", SERVICE_ACCOUNT),
    ],
)
def test_check_name_of_kubernetes_or_invalid_is_refused(name: str, kind: str) -> None:
    with pytest.raises(UserError, match=r"Kubernetes itself|not a valid name"):
        check_name(owners.name_owner(name), kind)
    check_name(owners.name_owner("alice@example.com"), USER)


@pytest.mark.parametrize(
    ("flags", "hard"),
    [
        (QuotaFlags(), {"pods": "1"}),
        (QuotaFlags(cpus="1.5", memory="8"), {"requests.cpu": "1500m", "requests.memory": "8Gi"}),
        (QuotaFlags(tasks="0"), {"pods": "0"}),
        (QuotaFlags(tasks="none"), {}),
        (QuotaFlags(storage="500"), {"requests.storage": "500Gi"}),
        (QuotaFlags(gpus="8"), {GPU: "8"}),
        (QuotaFlags(gpus="H100:4"), {GPU: "4"}),
        (QuotaFlags(gpus="MI300X:2"), {"requests.amd.com/gpu": "2"}),
        (
            QuotaFlags(gpus="0"),
            {
                GPU: "0",
                "requests.amd.com/gpu": "0",
                "requests.aws.amazon.com/neuron": "0",
                "requests.google.com/tpu": "0",
            },
        ),
    ],
)
def test_quota_has_limits_of_flags(flags: QuotaFlags, hard: dict[str, str]) -> None:
    kept = {} if flags.tasks else {"pods": "1"}
    limits = kept | hard
    assert quota(flags, {"pods": "1"}, False) == (limits and limits | DEFAULTS)


def test_quota_keeps_limits_without_flags() -> None:
    current = {"secrets": "3", GPU: "1", "requests.amd.com/gpu": "1"}
    assert quota(QuotaFlags(gpus="none"), current, False) == {"secrets": "3"} | DEFAULTS


@pytest.mark.parametrize(
    "flags",
    [
        {"cpus": "many"},
        {"cpus": "-1"},
        {"memory": "8Qi"},
        {"tasks": "-1"},
        {"tasks": "1.5"},
        {"tasks": "٣"},
        {"tasks": "9" * 30},
        {"storage": "much"},
        {"gpus": "two"},
        {"gpus": "A100:"},
        {"gpus": "A100:-2"},
        {"gpus": "{}"},
        {"gpus": "{A100:8, H100:4}"},
        {"gpus": "tpu-v5e:8"},
    ],
)
def test_invalid_limit_names_its_flag(flags: dict[str, str]) -> None:
    with pytest.raises(UserError, match=f"--{next(iter(flags))} "):
        quota(QuotaFlags(**flags), {}, False)


def test_default_requests_are_those_of_limits_and_fit_into_small_quota() -> None:
    account = Account(owners.name_owner("a"), "User", "n", {"requests.cpu": "100m", "pods": "1"})
    assert account.default_requests == {"cpu": "100m"}


@pytest.mark.parametrize("prefix", ["x" * 39, "1" * 34, "x" * 40, f"system:node:{'x' * 40}"])
def test_slug_of_names_with_long_same_prefix_differs(prefix: str) -> None:
    alice, bob = (owners.name_owner(f"{prefix}-{name}") for name in ("alice", "bob"))
    assert alice.slug != bob.slug
    assert len(alice.namespace) <= 63


@given(st.text(min_size=1, max_size=300))
def test_random_name_gives_manifests_with_this_name(name: str) -> None:
    try:
        user = owners.name_owner(name)
    except UserError:
        return
    account = Account(user, "User", user.namespace, {"pods": "1"})
    for manifest in render(account, with_namespace=True):
        metadata = manifest.object["metadata"]
        assert metadata["annotations"]["kubectl-sky/user"] == user.name
        assert len(metadata["name"]) <= 63
    *_, binding = (item.object for item in render(account, with_namespace=False))
    assert [subject["name"] for subject in binding["subjects"]] == [user.name]
