"""Logs line by line, for tests."""

from collections.abc import Iterable, Iterator
from threading import Event, Thread
from typing import NamedTuple

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import Following, LogOptions, LogSource
from kubectl_sky.cluster.tail import Batch, Tail
from kubectl_sky.words import kinds
from tests.contract.makers import make_pod
from tests.polling import eventually


class Line(NamedTuple):
    """A line without its newline; or a note for the user, which is not part of the log.

    `whole` is False for the end of a log that does not end with a newline.
    """

    source: LogSource
    text: bytes
    whole: bool = True
    note: bool = False


def lines(
    session: Session, source: LogSource, options: LogOptions, stop: Event | None = None
) -> Iterator[Line]:
    """Yield one container's log, each line once, in order. Raises ClusterError."""
    for batch in Tail(session, source, options, stop).batches():
        yield from _lines(batch)


def merged(session: Session, sources: Iterable[LogSource], options: LogOptions) -> Iterator[Line]:
    """Yield the lines of many logs as they come; each log's own lines stay in order.

    `sources` is read in a thread of its own, so it may wait for pods to appear. The end comes when
    it has ended and so have all logs. Raises ClusterError, also what reading `sources` raises.
    """
    groups = ([source] for source in sources)
    with Following(session, options) as following:
        Thread(target=following.add_all, args=(groups,), name="log sources", daemon=True).start()
        for block in following.blocks():
            if block and block.source:
                yield Line(block.source, block.note.encode(), note=True)
            elif block:
                *lines, (source, text) = block.lines
                yield from (Line(*line) for line in lines)
                yield Line(source, text, block.final_newline)


def _lines(batch: Batch) -> Iterator[Line]:
    if batch.note:
        yield Line(batch.source, batch.note.encode(), note=True)
    for number, text in enumerate(batch.lines, 1):
        yield Line(batch.source, text, batch.final_newline or number < len(batch.lines))


FOLLOW = LogOptions(follow=True)


def run_pod(session: Session, namespace: str, script: str, name: str = "a") -> LogSource:
    objects.create(session, make_pod(name, namespace, script))
    return LogSource(namespace, name, "main")


def until_finished(session: Session, source: LogSource) -> None:
    def check() -> bool:
        pod = objects.get_manifest(session, kinds.POD, source.pod, source.namespace)
        assert pod["status"]["phase"] in ("Succeeded", "Failed"), pod["status"]
        return True

    eventually(check)
