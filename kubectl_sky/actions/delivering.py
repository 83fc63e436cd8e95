"""Upload files that are too large for ConfigMaps directly to the pods."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from kubectl_sky import names
from kubectl_sky.actions import find, packing
from kubectl_sky.actions.courier import Blocks, Courier, Load, Shown, Where
from kubectl_sky.actions.stop import stop
from kubectl_sky.actions.submit import Prepared
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Interrupted, SkyError, TaskFailed, UserError
from kubectl_sky.sync.archive import Unsendable
from kubectl_sky.sync.delivery import Copy


@dataclass(frozen=True)
class Delivery:
    """The uploads of a submit; `following` is whether the command keeps running."""

    session: Session
    prepared: Prepared
    loads: tuple[Load, ...]
    blocks: Blocks
    shown: Shown
    following: bool
    known: Collection[str] = ()  # uids of the workload objects

    @property
    def where(self) -> Where:
        """Return the selector of the tasks that receive the files."""
        label = names.PIPELINE if self.prepared.together else names.TASK_ID
        namespace = self.prepared.plans[0].namespace
        return Where(namespace, label, self.prepared.id, self.prepared.word, self.known)

    @property
    def name(self) -> str:
        """Return the word and id, such as "task abc12345"."""
        return f"{self.prepared.word} {self.prepared.id}"

    @property
    def beside(self) -> bool:
        """Whether uploads continue in the background, for late and restarted nodes."""
        return bool(self.loads) and self.following and _lasts(self.prepared)


def ready(session: Session, prepared: Prepared, shown: Shown, following: bool) -> Delivery:
    """Prepare the uploads of a submit, before anything is sent.

    Takes a snapshot of the files. Raises UserError for files that no client would send to the
    later stages.
    """
    loads = tuple(
        Load(plan.id, number, files, prepared.archives[plan.id][files.path], bool(plan.cargo.shelf))
        for plan in prepared.plans
        for number, files in plan.cargo.streamed.items()
    )
    if loads and not following and any(plan.suspended for plan in prepared.plans):
        raise UserError(
            f"{loads[0].files.source}: is too large for ConfigMaps, and the tasks that start later"
            " get it from this command, which has to go on until they have it",
            "submit without --detach and -o, leave out what they do not need by .skyignore,"
            " or put it into a volume",
        )
    copies = _Copies()
    for load in () if prepared.complete else loads:
        copies.make(load)
    return Delivery(session, prepared, loads, copies, shown, following)


def _lasts(prepared: Prepared) -> bool:
    """Return whether nodes may restart, or start after others have finished."""
    restarts = any(plan.restarts or plan.recovers for plan in prepared.plans)
    return restarts or _apart(prepared)


def _apart(prepared: Prepared) -> bool:
    return prepared.together or bool(prepared.plans[0].array)


@contextmanager
def delivered(delivery: Delivery) -> Iterator[None]:
    """Upload the files to every node as soon as it waits for them, then run the body.

    The body starts at once if tasks start at different times. Raises SkyError.
    """
    if delivery.loads and not (_apart(delivery.prepared) and delivery.following):
        _at_first(delivery)
    if not delivery.beside:
        yield
        return
    with _beside(delivery):
        yield


def _at_first(task: Delivery) -> None:
    """Upload until all nodes have their files. Delete the task if this fails."""
    courier = Courier(task.session, task.where, task.loads, task.shown, task.blocks)
    try:
        courier.run(Event())
    except SkyError as error:
        raise type(error)(f"{error.what}; {_abandoned(task, courier)}", error.then) from None
    except KeyboardInterrupt:
        raise Interrupted("interrupted", _abandoned(task, courier)) from None
    if courier.late:
        message = f"{task.name}: a node ended without its files"
        if not task.following:
            raise TaskFailed(message, f"see `kubectl sky status {task.prepared.id}`")
        task.shown.note(message)


def _abandoned(task: Delivery, courier: Courier) -> str:
    """Delete the tasks, and return a message.

    Independent tasks are kept if some node already has its files.
    """
    if _apart(task.prepared) and not courier.idle:
        return f"{task.name} goes on; {_again(task)}"
    where = task.where
    statuses = find.labelled(task.session, where.namespace, where.label, where.id, where.known)
    stop(task.session, statuses)
    return f"{task.name} was removed: it lacks files"


def _again(task: Delivery) -> str:
    return f"what lacks files gets them from `kubectl sky submit FILE --id {task.prepared.id}`"


@contextmanager
def _beside(task: Delivery) -> Iterator[None]:
    """Upload in the background while the body runs."""
    sending = _Sending(task)
    sending.start()
    try:
        yield
    except SkyError as error:
        if sending.problem:
            raise sending.problem from None
        if isinstance(error, Interrupted) and sending.courier.missing:
            task.shown.note(_again(task))
        raise
    finally:
        sending.ended.set()
        sending.join()


class _Sending(Thread):
    """Upload until `ended` is set, without progress bars among the log lines."""

    def __init__(self, task: Delivery) -> None:
        super().__init__(name="courier", daemon=True)
        self.ended = Event()
        self.problem: SkyError | None = None
        quiet = replace(task.shown, progress=lambda label, size: nullcontext(_ignored))
        self.courier = Courier(
            task.session, task.where, task.loads, quiet, task.blocks, lasting=True
        )
        self._task = task

    def run(self) -> None:
        """Upload; if this fails, delete the tasks that lack files."""
        try:
            self.courier.run(self.ended)
        except SkyError as error:
            if not self.ended.is_set():
                message = f"{error.what}; {_abandoned(self._task, self.courier)}"
                self.problem = type(error)(message, error.then)


def _ignored(count: int) -> None:
    """Ignore the progress."""


class _Copies:
    """Snapshots of local files: later edits do not change what is uploaded."""

    def __init__(self) -> None:
        self._known: dict[str, Copy] = {}
        self._lock = Lock()

    def __call__(self, load: Load, advance: Callable[[int], object]) -> Iterator[bytes]:
        """Yield the bytes to send for a load. Raises UserError."""
        name = load.files.source
        try:
            yield from self.make(load).blocks(advance)
        except Unsendable as error:
            refusal = error.refusals[0]
            message = f"{name}: {refusal.name} {refusal.reason}".replace("  ", " ")
            raise UserError(message, refusal.hint) from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"{name}: no copy can be kept until all nodes have it: {reason}"
            raise UserError(message, "name a folder with room in TMPDIR") from None

    def make(self, load: Load) -> Copy:
        """Return the copy of a load, which may still be incomplete."""
        digest = load.archive.digest
        with self._lock:
            if digest not in self._known:
                self._known[digest] = Copy(packing.source(load.files), digest)
            return self._known[digest]
