"""The options in the query of a request, which have to make sense before anything is done."""

from collections.abc import Iterator, Mapping

from kubectl_sky.practice import problems
from kubectl_sky.practice.problems import Cause

_KINDS = {"POST": "Create", "PUT": "Update", "PATCH": "Patch", "DELETE": "Delete", "GET": "List"}
_NUMBERS = (
    *("limit", "timeoutSeconds", "gracePeriodSeconds"),
    *("tailLines", "sinceSeconds", "limitBytes"),
)
_KNOWN = {
    "dryRun": ("All",),
    "fieldValidation": ("", "Ignore", "Strict", "Warn"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "nil"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", ""),
}
_LONGEST = 128


def check(method: str, query: Mapping[str, str]) -> None:
    """Refuse options that make no sense. Raises Problem."""
    for name in _NUMBERS:
        number(name, query)
    version = query.get("resourceVersion", "")
    if method == "GET" and version and not version.isdigit():
        why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        text = f'resourceVersion: Invalid value: "{version}": {why}'
        raise problems.bad_request(f"invalid resource version: {text}")
    found = list(_causes(query))
    if found:
        raise problems.invalid(f"{_KINDS[method]}Options.meta.k8s.io", "", found)


def check_log(name: str, query: Mapping[str, str]) -> None:
    """Refuse options for the log of a pod that make no sense. Raises Problem."""
    tail = number("tailLines", query)
    if tail is not None and tail < 0:
        text = f"Invalid value: {tail}: must be greater than or equal to 0"
        raise problems.invalid(
            "PodLogOptions", name, [Cause("FieldValueInvalid", "tailLines", text)]
        )


def number(name: str, query: Mapping[str, str]) -> int | None:
    """Return a number of the query. Raises Problem."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise problems.bad_request(message) from None


def _causes(query: Mapping[str, str]) -> Iterator[Cause]:
    for name, known in _KNOWN.items():
        value = query.get(name, "")
        if value and value not in known:
            shown = f'["{value}"]' if name == "dryRun" else f'"{value}"'
            words = ", ".join(f'"{one}"' for one in known)
            text = f"Unsupported value: {shown}: supported values: {words}"
            yield Cause("FieldValueNotSupported", name, text)
    if len(query.get("fieldManager", "")) > _LONGEST:
        text = f"Too long: may not be more than {_LONGEST} bytes"
        yield Cause("FieldValueTooLong", "fieldManager", text)
    if query.get("resourceVersionMatch") and not {"resourceVersion", "watch"} & query.keys():
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        yield Cause("FieldValueForbidden", "resourceVersionMatch", f"Forbidden: {text}")
