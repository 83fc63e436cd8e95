"""Logs line by line, for tests."""

from collections.abc import Iterable, Iterator
from threading import Event, Thread
from typing import NamedTuple

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import Batch, Following, LogOptions, LogSource
from kubectl_sky.cluster.tail import Tail
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
    with Following(session, options) as following:
        Thread(target=following.add_all, args=(sources,), name="log sources", daemon=True).start()
        for batch in following.batches():
            if batch:
                yield from _lines(batch)


def _lines(batch: Batch) -> Iterator[Line]:
    if batch.note:
        yield Line(batch.source, batch.note.encode(), note=True)
    source, last = batch.source, len(batch.lines) - 1
    if batch.final_newline:
        for text in batch.lines:
            yield Line(source, text)
    else:
        for index, text in enumerate(batch.lines):
            yield Line(source, text, index != last)


FOLLOW = LogOptions(follow=True)


def run_pod(session: Session, namespace: str, script: str, name: str = "a") -> LogSource:
    objects.create(session, make_pod(name, namespace, script))
    return LogSource(namespace, name, "main")


def until_finished(session: Session, source: LogSource) -> None:
    def check() -> bool:
        pod = objects.get(session, kinds.POD, source.pod, source.namespace)
        assert pod["status"]["phase"] in ("Succeeded", "Failed"), pod["status"]
        return True

    eventually(check)
