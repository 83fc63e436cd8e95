"""Which context of the kubeconfig a task goes to: the flag's, else the file's, else the current."""

from collections.abc import Collection
from dataclasses import replace

from kubectl_sky.actions.draft import Draft
from kubectl_sky.cluster import kubeconfig
from kubectl_sky.cluster.kubeconfig import Connection
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.plan.placement import staying
from kubectl_sky.spec import infra
from kubectl_sky.spec.document import Path


def choose(draft: Draft, connection: Connection) -> tuple[Draft, Connection]:
    """Return the draft with the candidates of one context only, and the connection to that.

    Of several contexts in a file it is the first that the kubeconfig has. Raises InvalidFiles where
    it has none of them.
    """
    wanted = dict.fromkeys(candidate.context for candidate in draft.task.candidates)
    if not any(wanted):
        return draft, connection
    named = infra.contexts(draft.document)
    if connection.context:
        chosen: str | None = connection.context
        told = (
            "" if chosen in wanted else f"--context {chosen} is used, not {_places(draft, named)}"
        )
    else:
        known = kubeconfig.contexts(connection)
        fitting = [context for context in wanted if context is None or context in known.names]
        if not fitting:
            raise InvalidFiles(_unknown(draft, named, known.names))
        chosen = fitting[0]
        told = _chosen(draft, named, chosen) if chosen not in (None, known.current) else ""
    remarks = (*draft.remarks, told) if told else draft.remarks
    draft = replace(draft, task=staying(draft.task, chosen), remarks=remarks)
    return draft, replace(connection, context=chosen)


def _chosen(draft: Draft, named: dict[str, Path], chosen: str | None) -> str:
    place = _places(draft, {name: path for name, path in named.items() if name == chosen})
    return f"context {place}; other commands find the task with --context {chosen}"


def _places(draft: Draft, named: dict[str, Path]) -> str:
    """`west of task.yaml:3:10`."""
    found = [(name, draft.document.problem(path, "")) for name, path in named.items()]
    return " or ".join(f"{name} of {problem.place}" for name, problem in found)


def _unknown(draft: Draft, named: dict[str, Path], known: Collection[str]) -> list[Problem]:
    has = f"it has: {', '.join(known)}" if known else "it has none"
    return [
        draft.document.problem(path, f"no context {name!r} in the kubeconfig", has)
        for name, path in named.items()
    ]
