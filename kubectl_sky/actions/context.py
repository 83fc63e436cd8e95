"""Which context of the kubeconfig a task goes to: the flag's, else the file's, else the current."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kubectl_sky.actions.draft import Draft
from kubectl_sky.cluster import kubeconfig
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.plan.placement import staying
from kubectl_sky.spec import infra
from kubectl_sky.spec.document import Document, Path


@dataclass(frozen=True)
class _Named:
    """A context that a document names, and where."""

    context: str
    document: Document
    path: Path

    def problem(self, message: str, hint: str = "") -> Problem:
        return self.document.problem(self.path, message, hint)


def choose(draft: Draft, connection: Connection) -> tuple[Draft, Connection]:
    """Return the draft with the candidates of one context only, and the connection to that.

    Of several contexts in a file it is the first that the kubeconfig has and that suits all tasks.
    Raises InvalidFiles where there is none.
    """
    wanted = [{candidate.context for candidate in task.candidates} for task in draft.tasks]
    order = dict.fromkeys(one.context for task in draft.tasks for one in task.candidates)
    if not any(order):
        return draft, connection
    named = [
        _Named(context, part.document, path)
        for part in draft.parts
        for context, path in infra.contexts(part.document).items()
    ]
    if connection.context:
        chosen: str | None = connection.context
        told = "" if chosen in order else f"--context {chosen} is used, not {_places(named)}"
    else:
        known = kubeconfig.contexts(connection)
        there = [context for context in order if context is None or context in known.names]
        fitting = [one for one in there if all(not each.isdisjoint({one, None}) for each in wanted)]
        if not fitting:
            raise InvalidFiles(_divided(named) if there else _unknown(named, known.names))
        chosen = fitting[0]
        told = _chosen(named, chosen) if chosen not in (None, known.current) else ""
    remarks = (*draft.remarks, told) if told else draft.remarks
    parts = tuple(replace(part, task=staying(part.task, chosen)) for part in draft.parts)
    return replace(draft, parts=parts, remarks=remarks), replace(connection, context=chosen)


def _chosen(named: list[_Named], chosen: str | None) -> str:
    place = _places([one for one in named if one.context == chosen][:1])
    return f"context {place}; other commands find the task with --context {chosen}"


def _places(named: list[_Named]) -> str:
    """`west of task.yaml:3:10`."""
    return " or ".join(f"{one.context} of {one.problem('').place}" for one in named)


def _unknown(named: list[_Named], known: Collection[str]) -> list[Problem]:
    has = f"it has: {', '.join(known)}" if known else "it has none"
    return [one.problem(f"no context {one.context!r} in the kubeconfig", has) for one in named]


def _divided(named: list[_Named]) -> list[Problem]:
    return [
        one.problem("the tasks of a file go to one context", "--context says to which")
        for one in named
    ]
