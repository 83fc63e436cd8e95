"""Create many objects, stage by stage; delete the created ones if one fails."""

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from datetime import datetime, timedelta
from http import HTTPStatus
from threading import Condition
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.backoff import Outage
from kubectl_sky.cluster.objects import Accept
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Interrupted,
    NotFound,
    SkyError,
    Unprocessed,
    Unreachable,
    UserError,
)

_MAX_NAMES = 3  # of objects, in a message
_CLOCK_SLACK = timedelta(seconds=2)  # the server's dates are whole seconds


class Applied(Struct, frozen=True):
    """An object as returned by the server, and whether this call created it."""

    object: Json
    created: bool

    @property
    def label(self) -> str:
        """Resource and name as kubectl prints them: `jobs.batch hello-x1`."""
        return f"{objects.kind_of_known(self.object).resource} {self.object['metadata']['name']}"


def apply_all(
    session: Session,
    stages: Sequence[Sequence[Json]],
    accept: Accept,
    *,
    dry_run: bool = False,
    on_done: Callable[[Applied], object] | None = None,
    finish: Callable[[list[Applied]], object] | None = None,
) -> list[Applied]:
    """Create objects stage by stage, those of a stage in parallel; return them in order.

    An existing object is not changed: `accept` raises unless it may be used as it is. `finish`
    gets the objects at the end.
    On the first failure, and on Ctrl-C, the objects that this call created are deleted, and the
    error says so. A dry run has nothing to undo.
    `on_done` and `finish` are called in the caller's thread. Raises ClusterError,
    UserError if a name is taken, or Interrupted on Ctrl-C. `remaining` of the error has the objects
    that may still exist.
    """
    run = _Run(session, dry_run, accept)

    try:
        applied = [done for stage in stages for done in _stage(run, stage, on_done)]
        if finish:
            finish(applied)
        return applied
    except KeyboardInterrupt:
        Outage.interrupt()
        remaining = run.undo()
        interrupted = Interrupted("interrupted", run.summary(remaining) or "nothing was created")
        interrupted.remaining = [applied.object for applied in remaining]
        raise interrupted from None
    except (ClusterError, UserError) as error:
        remaining = run.undo()
        summary = run.summary(remaining)
        what = f"{error.what}; {summary}" if summary else error.what
        failed = type(error)(what, error.hint)
        failed.remaining = [applied.object for applied in remaining]
        raise failed from None


def _stage(
    run: "_Run",
    stage: Sequence[Json],
    on_done: Callable[[Applied], object] | None,
) -> list[Applied]:
    """Apply one stage; on an error, finish running requests and start no new ones."""
    with parallel.pool(name="apply") as pool:
        futures = [pool.submit(run.apply, manifest) for manifest in stage]
        for future in as_completed(futures):
            done = future.result()
            if on_done:
                on_done(done)
        return [future.result() for future in futures]


class _Run:
    """The state of one call of `apply_all`."""

    def __init__(self, session: Session, dry_run: bool, accept: Accept) -> None:
        self.session = session
        self.dry_run = dry_run
        self.accept = accept
        self.started_at = monotonic()
        self.applied: list[Applied] = []
        self.uncertain: list[Json] = []
        self.running = 0
        self.stopped = False
        self.undone = False  # whether there was something to delete
        self.changed = Condition()

    def apply(self, manifest: Json) -> Applied:
        with self.changed:
            if self.stopped:
                raise Interrupted("interrupted")
            self.running += 1
        try:
            return self._apply(manifest)
        finally:
            with self.changed:
                self.running -= 1
                self.changed.notify_all()

    def _apply(self, manifest: Json) -> Applied:
        try:
            answer = objects.create_or_accept(
                self.session, manifest, self.accept, dry_run=self.dry_run
            )
        except Unprocessed:
            raise
        except Unreachable:
            with self.changed:
                self.uncertain.append(manifest)  # the answer may have been lost, not the request
            raise

        created = answer.status == HTTPStatus.CREATED or (
            answer.retried and self._is_new(answer.body)
        )
        applied = Applied(answer.body, created)
        with self.changed:
            self.applied.append(applied)
        return applied

    def _stop(self) -> None:
        """Start no new requests, and wait for those under way.

        A pool whose start is interrupted does not wait for all of its threads.
        """
        with self.changed:
            self.stopped = True
            self.changed.wait_for(lambda: not self.running)

    def _is_new(self, item: Json) -> bool:
        """Check by the server's clock whether this run created the object."""
        running = timedelta(seconds=monotonic() - self.started_at)
        run_started = self.session.now() - running - _CLOCK_SLACK
        return datetime.fromisoformat(item["metadata"]["creationTimestamp"]) >= run_started

    def undo(self) -> list[Applied]:
        """Delete what this run created; return what may still exist.

        What was created last comes first: a pod must not start without what it needs.
        """
        if self.dry_run:
            return []
        self._stop()
        created = [applied for applied in reversed(self.applied) if applied.created]
        created += filter(None, parallel.map_parallel(self._find_lost, self.uncertain))
        removed = parallel.map_parallel(self._remove, created)
        self.undone = bool(created)
        return [applied for applied, success in zip(created, removed, strict=True) if not success]

    def summary(self, remaining: Sequence[Applied]) -> str:
        """Say what `undo` did; empty if nothing."""
        if not remaining:
            return "the created objects were deleted again" if self.undone else ""
        labels = sorted(applied.label for applied in remaining)
        more = len(labels) - _MAX_NAMES
        names = ", ".join(labels[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"could not be deleted: {names}"

    def _find_lost(self, manifest: Json) -> Applied | None:
        """Return an object whose answer was lost, if it exists and is new."""
        kind = objects.kind_of_known(manifest)
        metadata = manifest["metadata"]
        try:
            live = objects.get_manifest(
                self.session, kind, metadata["name"], metadata.get("namespace")
            )
        except NotFound:
            return None
        except SkyError:
            return Applied(manifest, created=True)  # it may exist: report it as not removed
        return Applied(live, created=True) if self._is_new(live) else None

    def _remove(self, applied: Applied) -> bool:
        """Delete an object unless a newer one has the same name; False if that fails.

        Without a uid, nothing shows that the object of this name is the created one.
        """
        metadata = applied.object["metadata"]
        if "uid" not in metadata:
            return False
        try:
            objects.delete_by_uid(self.session, objects.kind_of_known(applied.object), metadata)
        except SkyError:
            return False
        return True
