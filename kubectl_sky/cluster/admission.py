"""Explain refusals of requests by quotas, limits, policies and webhooks."""

import re

_VALUE = re.compile(r'(Invalid value: |got )(?:"(?:[^"\\]|\\.)*"|\S.*)')


def explain(message: str) -> tuple[str, str] | None:
    """Explain a refusal by quota, limit, policy or webhook; None for others."""
    quota = _QUOTA.search(message)
    if quota:
        return _quota(quota)
    for pattern, what, hint in _RULES:
        match = pattern.search(message)
        if match:
            return what.format_map(match.groupdict()), hint.format_map(match.groupdict())
    return None


def without_values(message: str) -> str:
    """Remove the values quoted in an error message about a Secret."""
    return _VALUE.sub(r"\1(not shown)", message)


def _amounts(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _quota(match: re.Match[str]) -> tuple[str, str]:
    used = _amounts(match["used"])
    limited = _amounts(match["limited"])
    parts = [
        f"{what}: requested {amount}, used {used.get(what, '?')} of {limited.get(what, '?')}"
        for what, amount in _amounts(match["asked"]).items()
    ]
    unused = {used.get(what) for what in _amounts(match["asked"])} == {"0"}
    state = "too small" if unused else "full"
    return (
        f"quota {match['quota']} is {state}: {', '.join(parts)}",
        "stop a task, request less, or ask a cluster admin for a larger quota",
    )


_QUOTA = re.compile(
    r"exceeded quota: (?P<quota>\S+), requested: (?P<asked>\S+),"
    r" used: (?P<used>\S+), limited: (?P<limited>\S+)"
)
_RULES = (  # pattern, what happened, hint
    (
        re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify (?P<what>.+)"),
        "quota {quota} requires {what}",
        "set cpus and memory under resources",
    ),
    (  # an AppWrapper whose user may not create the wrapped resources
        re.compile(
            r"User (?P<user>\S+) is not authorized to create (?P<what>\S+) in (?P<where>[^\s,\]]+)"
        ),
        "user {user} is not entitled to the contained resources:"
        " creating {what} in namespace {where} is not allowed",
        "ask a cluster admin for this permission: `kubectl sky doctor --role` prints a Role",
    ),
    (
        re.compile(r'admission webhook "(?P<name>[^"]*)" denied the request:? ?(?P<why>.*)'),
        "admission webhook {name} denied the request: {why}",
        "",
    ),
    (
        re.compile(r'failed calling webhook "(?P<name>[^"]*)"'),
        "admission webhook {name} does not answer",
        "ask a cluster admin to repair it, or try again later",
    ),
    (
        re.compile(
            r"ValidatingAdmissionPolicy '(?P<name>[^']*)' with binding '[^']*' denied request:"
            r" (?P<why>.*)"
        ),
        "admission policy {name} denied the request: {why}",
        "",
    ),
    (
        re.compile(r'violates PodSecurity "(?P<level>[^"]*)": (?P<why>.*)'),
        "Pod Security level {level} of the namespace denied the pod: {why}",
        "change the pod, for restricted by `config: {{kubernetes: {{pod_config: {{spec:"
        " {{securityContext: {{runAsNonRoot: true, runAsUser: 1000}}}}}}}}}}`,"
        " or use a namespace with another level",
    ),
    (
        re.compile(r"unable to create new content in namespace (?P<name>\S+) because it is being"),
        "namespace {name} is being deleted",
        "wait, or use another namespace with -n",
    ),
    (
        re.compile(r"no PriorityClass with name (?P<name>\S+) was found"),
        'priority class "{name}" not found',
        "ask a cluster admin which ones there are: `kubectl get priorityclasses` lists them",
    ),
    (
        re.compile(
            r"error looking up service account (?P<namespace>[^/\s]+)/(?P<name>[^:\s]+):"
            r" serviceaccount .* not found"
        ),
        'service account "{name}" not found in namespace "{namespace}"',
        "`kubectl get serviceaccounts -n {namespace}` lists the existing ones",
    ),
    (
        re.compile(r"is forbidden: (?P<why>(?:maximum|minimum|max limit|\[).+)"),
        "a LimitRange of the namespace denied the request: {why}",
        "see `kubectl get limitrange -o yaml`",
    ),
)
