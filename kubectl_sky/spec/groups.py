"""Rules of a group's tasks, which run in parallel and find each other by name."""

import re
from collections.abc import Iterator

from kubectl_sky import names
from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document, Path, entries

_NAME = "SKYPILOT_JOBGROUP_NAME"


def _named(document: Document) -> Iterator[Problem]:
    if not document.parallel:
        return
    name, earlier_names = document.get("name"), document.names[: document.index - 1]
    earlier_hosts = [names.dns_label(str(earlier)) for earlier in earlier_names]
    if name is None:
        yield document.problem((), "a task of a parallel group needs a name", "add name: …")
    elif name in earlier_names:
        yield document.problem(("name",), "another task of the group has this name")
    elif names.dns_label(str(name)) in earlier_hosts:
        conflict = earlier_names[earlier_hosts.index(names.dns_label(str(name)))]
        message = f"its nodes would have the host names of {conflict}"
        yield document.problem(("name",), message, "choose names that differ in more")
    elif names.dns_label(str(name)) != str(name).lower():
        message = f"its nodes' host names are {names.dns_label(str(name))}-0.${_NAME} and so on"
        yield document.problem(
            ("name",), message, "host names are of letters, digits and -", "warning"
        )


def _hosts(document: Document) -> Iterator[Problem]:
    """Check for SkyPilot's host names, which end in the group's name.

    Here they end in a unique name of the group instead.
    """
    if not document.parallel or not document.title:
        return
    host_pattern = re.compile(rf"-[0-9]+\.{re.escape(str(document.title))}(?![\w-])")
    paths: list[Path] = [("setup",), ("run",)]
    paths += [("envs", name) for name, _ in entries(document.get("envs"))]
    for path in paths:
        if host_pattern.search(str(document.get(*path) or "")):
            message = f"the group's host names end in ${_NAME}, and that is not {document.title}"
            yield document.problem(path, message, f"write ${_NAME} there", "warning")


RULES = (_named, _hosts)
