"""Label selectors in the syntax of kubectl and the API server."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<key>{_KEY})\s*(?P<operator>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_operator>in|notin)"
    rf"\s*\((?P<values>\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*)\)"
    rf"|(?P<absent>!?)\s*(?P<exists>{_KEY}))\s*(?:,|$)"
)
_FORMS = "such as app=web, app!=web or 'app in (web,db)'"


def parse(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Return whether labels match, as a function. Raises ValueError for an invalid selector."""
    requirements = []
    rest = text.strip("\0 ")
    while rest:
        match = _REQUIREMENT.match(rest)
        if not match:
            raise ValueError(f'unable to parse requirement: "{rest}"; {_FORMS}')
        requirements.append(_requirement(**match.groupdict()))
        rest = rest[match.end() :].strip()
    return lambda labels: all(_holds(requirement, labels) for requirement in requirements)


def _requirement(**parts: str | None) -> Json:
    if parts["exists"]:
        operator = "DoesNotExist" if parts["absent"] else "Exists"
        return {"key": parts["exists"], "operator": operator}
    if parts["set_key"]:
        operator = "In" if parts["set_operator"] == "in" else "NotIn"
        values = [value.strip() for value in (parts["values"] or "").split(",")]
        return {"key": parts["set_key"], "operator": operator, "values": values}
    operator = "NotIn" if parts["operator"] == "!=" else "In"
    return {"key": parts["key"], "operator": operator, "values": [parts["value"]]}


def _holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    operator: str = requirement["operator"]
    value = labels.get(requirement["key"])
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return (value in requirement["values"]) == (operator == "In")
