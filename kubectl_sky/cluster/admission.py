"""Explain why the cluster's own rules refused an object: quotas, limits, policies, webhooks."""

import re
from collections.abc import Callable

_Match = re.Match[str]

_VALUE = re.compile(r'(Invalid value: |got )(?:"(?:[^"\\]|\\.)*"|\S.*)')


def explain(message: str) -> tuple[str, str] | None:
    """Return what happened and what next; None if no rule of the cluster is named."""
    for pattern, told in _RULES:
        match = pattern.search(message)
        if match:
            return told(match)
    return None


def without_values(message: str) -> str:
    """Return the message of a Secret without the values that it quotes."""
    return _VALUE.sub(r"\1(not shown)", message)


def _amounts(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _quota(match: _Match) -> tuple[str, str]:
    used, limited = _amounts(match["used"]), _amounts(match["limited"])
    parts = [
        f"{what}: asked {amount}, used {used.get(what, '?')} of {limited.get(what, '?')}"
        for what, amount in _amounts(match["asked"]).items()
    ]
    return (
        f"quota {match['quota']} is full: {', '.join(parts)}",
        "stop something, ask for less, or ask the cluster's administrator for more",
    )


def _quota_wants(match: _Match) -> tuple[str, str]:
    return (
        f"quota {match['quota']} wants {match['what']} to be set",
        "say how much cpu and memory the task needs under resources",
    )


def _not_entitled(match: _Match) -> tuple[str, str]:
    """What AppWrapper says of a user who may wrap, and not create, what is inside."""
    return (
        f"user {match['user']} is not entitled to the contained resources:"
        f" creating {match['what']} in namespace {match['where']} is not allowed",
        "ask the cluster's administrator for that right: `kubectl sky doctor --role` writes a Role",
    )


def _webhook(match: _Match) -> tuple[str, str]:
    return f"admission webhook {match['name']} refused it: {match['why']}", ""


def _webhook_down(match: _Match) -> tuple[str, str]:
    return (
        f"admission webhook {match['name']} does not answer",
        "the cluster's administrator can repair it; try again later",
    )


def _policy(match: _Match) -> tuple[str, str]:
    return f"admission policy {match['name']} refused it: {match['why']}", ""


def _pod_security(match: _Match) -> tuple[str, str]:
    return (
        f"pod security level {match['level']} of the namespace refused it: {match['why']}",
        "change the pod with config.kubernetes.pod_config (restricted needs runAsNonRoot: true),"
        " or use a namespace with another level",
    )


def _terminating(match: _Match) -> tuple[str, str]:
    return f"namespace {match['name']} is being deleted", "wait, or use another with -n"


def _limits(match: _Match) -> tuple[str, str]:
    return (
        f"a LimitRange of the namespace refused it: {match['why']}",
        "see `kubectl describe limitrange`",
    )


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Match], tuple[str, str]]], ...] = (
    (
        re.compile(
            r"exceeded quota: (?P<quota>\S+), requested: (?P<asked>\S+),"
            r" used: (?P<used>\S+), limited: (?P<limited>\S+)"
        ),
        _quota,
    ),
    (re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify (?P<what>.+)"), _quota_wants),
    (
        re.compile(
            r"User (?P<user>\S+) is not authorized to create (?P<what>\S+) in (?P<where>[^\s,\]]+)"
        ),
        _not_entitled,
    ),
    (
        re.compile(r'admission webhook "(?P<name>[^"]*)" denied the request:? ?(?P<why>.*)'),
        _webhook,
    ),
    (re.compile(r'failed calling webhook "(?P<name>[^"]*)"'), _webhook_down),
    (
        re.compile(
            r"ValidatingAdmissionPolicy '(?P<name>[^']*)' with binding '[^']*' denied request:"
            r" (?P<why>.*)"
        ),
        _policy,
    ),
    (re.compile(r'violates PodSecurity "(?P<level>[^"]*)": (?P<why>.*)'), _pod_security),
    (
        re.compile(r"unable to create new content in namespace (?P<name>\S+) because it is being"),
        _terminating,
    ),
    (re.compile(r"is forbidden: (?P<why>(?:maximum|minimum|max limit|\[).+)"), _limits),
)
