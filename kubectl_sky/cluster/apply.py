"""Apply many objects, stage after stage, and take back what was created if one of them fails."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import Protocol

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.errors import Call
from kubectl_sky.cluster.session import Answer, Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Interrupted,
    NotFound,
    SkyError,
    Unreachable,
    UserError,
)

_SLACK = timedelta(seconds=2)  # the server's dates are whole seconds


class Send(Protocol):
    """Sends an object, and returns what the server makes of it."""

    def __call__(self, session: Session, manifest: Json, *, dry_run: bool) -> Answer:
        """The status of the answer is 201 where the object was created."""


@dataclass(frozen=True)
class Applied:
    """An object as the server returned it, and whether this call created it."""

    object: Json
    created: bool

    @property
    def label(self) -> str:
        """As kubectl names it: `jobs.batch hello-x1`."""
        return f"{objects.known_kind(self.object).resource} {self.object['metadata']['name']}"


def apply_all(
    session: Session,
    stages: Sequence[Sequence[Json]],
    *,
    dry_run: bool = False,
    workers: int = 16,
    on_done: Callable[[Applied], None] | None = None,
    send: Send = objects.send_apply,
) -> list[Applied]:
    """Apply the objects of a stage side by side, stage after stage; return them in that order.

    At the first failure, and at Ctrl-C, what this call created is deleted again, and the error
    says so; what existed before keeps its changes. A dry run has nothing to take back.
    `on_done` is called in the caller's thread; `send` is how one object is sent. Raises
    ClusterError, UserError where a name is taken, or Interrupted at Ctrl-C.
    """
    run = _Run(session, dry_run, send)
    try:
        return [done for stage in stages for done in _stage(run, stage, workers, on_done)]
    except KeyboardInterrupt:
        raise Interrupted("interrupted", run.undo(workers) or "nothing was created") from None
    except (ClusterError, UserError) as error:
        undone = run.undo(workers)
        raise type(error)(f"{error.what}; {undone}" if undone else error.what, error.then) from None


def _stage(
    run: "_Run",
    stage: Sequence[Json],
    workers: int,
    on_done: Callable[[Applied], None] | None,
) -> list[Applied]:
    """Apply one stage; at an error what has begun is finished, and nothing new begins."""
    with ThreadPoolExecutor(workers, thread_name_prefix="apply") as pool:
        futures = [pool.submit(run.apply, manifest) for manifest in stage]
        try:
            for future in as_completed(futures):
                done = future.result()
                if on_done:
                    on_done(done)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        return [future.result() for future in futures]


class _Run:
    """What one call of `apply_all` has done so far."""

    def __init__(self, session: Session, dry_run: bool, send: Send) -> None:
        self.session = session
        self.dry_run = dry_run
        self.send = send
        self.begun = monotonic()
        self.done: list[Applied] = []
        self.unsure: list[Json] = []
        self.lock = Lock()

    def apply(self, manifest: Json) -> Applied:
        try:
            answer = self.send(self.session, manifest, dry_run=self.dry_run)
        except Unreachable:
            with self.lock:
                self.unsure.append(manifest)  # the answer may have been lost, not the request
            raise
        created = answer.status == HTTPStatus.CREATED or (answer.retried and self._is_new(answer))
        applied = Applied(answer.body, created)
        with self.lock:
            self.done.append(applied)
        return applied

    def _is_new(self, answer: Answer) -> bool:
        """Say whether an object was created after this run began, by the server's own clock."""
        now = parsedate_to_datetime(answer.date) if answer.date else datetime.now(UTC)
        begun = now - timedelta(seconds=monotonic() - self.begun) - _SLACK
        return datetime.fromisoformat(answer.body["metadata"]["creationTimestamp"]) >= begun

    def undo(self, workers: int) -> str:
        """Delete what this run created; return a sentence about it, empty if there is nothing."""
        if self.dry_run:
            return ""
        kept = [applied.label for applied in self.done if not applied.created]
        created = [applied for applied in self.done if applied.created]
        with ThreadPoolExecutor(workers, thread_name_prefix="undo") as pool:
            created += [applied for applied in pool.map(self._found, self.unsure) if applied]
            removed = list(pool.map(self._remove, created))
        left = [applied.label for applied, gone in zip(created, removed, strict=True) if not gone]
        said = ["what was created has been removed again"] if created and not left else []
        said += [f"could not be removed again: {', '.join(left)}"] if left else []
        said += [f"already updated: {', '.join(kept)}"] if kept else []
        return "; ".join(said)

    def _found(self, manifest: Json) -> Applied | None:
        """An object whose answer was lost, if it exists and is new."""
        kind = objects.known_kind(manifest)
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace") or self.session.namespace
        place = objects.path(kind, namespace, metadata["name"])
        try:
            answer = self.session.send(Call("GET", place, self.session.server))
        except NotFound:
            return None
        except SkyError:
            return Applied(manifest, created=True)  # it may exist: say that it is left
        return Applied(answer.body, created=True) if self._is_new(answer) else None

    def _remove(self, applied: Applied) -> bool:
        """Delete an object unless somebody has put another one in its place."""
        metadata = applied.object["metadata"]
        kind = objects.known_kind(applied.object)
        namespace = metadata.get("namespace") or self.session.namespace
        body: Json = {"propagationPolicy": "Background"}
        if "uid" in metadata:
            body["preconditions"] = {"uid": metadata["uid"]}
        try:
            self.session.request(
                "DELETE", objects.path(kind, namespace, metadata["name"]), body=body
            )
        except (NotFound, Conflict):
            return True
        except SkyError:
            return False
        return True
