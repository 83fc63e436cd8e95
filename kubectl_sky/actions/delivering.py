"""Send the files that are too large for the cluster's objects straight to the pods of tasks."""

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
    """What of a submit has to be sent to pods, and how; `following` is whether it stays."""

    session: Session
    prepared: Prepared
    loads: tuple[Load, ...]
    blocks: Blocks
    shown: Shown
    following: bool
    known: Collection[str] = ()  # uids of the objects that run the tasks

    @property
    def where(self) -> Where:
        """The tasks that these are for."""
        label = names.PIPELINE if self.prepared.together else names.TASK_ID
        namespace = self.prepared.plans[0].namespace
        return Where(namespace, label, self.prepared.id, self.prepared.word, self.known)

    @property
    def name(self) -> str:
        """What people call the whole."""
        return f"{self.prepared.word} {self.prepared.id}"

    @property
    def beside(self) -> bool:
        """Whether it goes on beside what follows, for nodes that start later or again."""
        return bool(self.loads) and self.following and _lasts(self.prepared)


def ready(session: Session, prepared: Prepared, shown: Shown, following: bool) -> Delivery:
    """Return what has to be sent to pods, before anything is.

    They are copied as they are now. Raises UserError for files that nobody would send to the later
    stages.
    """
    loads = tuple(
        Load(plan.id, number, one, prepared.archives[plan.id][one.path], bool(plan.cargo.shelf))
        for plan in prepared.plans
        for number, one in plan.cargo.streamed.items()
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
    """Say whether some nodes may start when others have ended, or once more."""
    again = any(plan.restarts or plan.recovers for plan in prepared.plans)
    return again or _apart(prepared)


def _apart(prepared: Prepared) -> bool:
    return prepared.together or bool(prepared.plans[0].array)


@contextmanager
def delivered(delivery: Delivery) -> Iterator[None]:
    """Send the files to every node as soon as it waits for them, and let what follows begin.

    It begins at once where tasks start at times of their own. Raises SkyError.
    """
    if delivery.loads and not (_apart(delivery.prepared) and delivery.following):
        _at_first(delivery)
    if not delivery.beside:
        yield
        return
    with _beside(delivery):
        yield


def _at_first(task: Delivery) -> None:
    """Send until all nodes have it. A task that cannot run without is removed."""
    courier = Courier(task.session, task.where, task.loads, task.shown, task.blocks)
    try:
        courier.run(Event())
    except SkyError as error:
        raise type(error)(f"{error.what}; {_abandoned(task, courier)}", error.then) from None
    except KeyboardInterrupt:
        raise Interrupted("interrupted", _abandoned(task, courier)) from None
    if courier.late:
        what = f"{task.name}: a node ended without its files"
        if not task.following:
            raise TaskFailed(what, f"see `kubectl sky status {task.prepared.id}`")
        task.shown.note(what)


def _abandoned(task: Delivery, courier: Courier) -> str:
    """Remove what lacks files; of many tasks those that have theirs go on."""
    if _apart(task.prepared) and not courier.idle:
        return f"{task.name} goes on; {_again(task)}"
    where = task.where
    found = find.labelled(task.session, where.namespace, where.label, where.id, where.known)
    stop(task.session, found)
    return f"{task.name} was removed: it lacks files"


def _again(task: Delivery) -> str:
    return f"what lacks files gets them from `kubectl sky submit FILE --id {task.prepared.id}`"


@contextmanager
def _beside(task: Delivery) -> Iterator[None]:
    """Send beside what follows."""
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
    """Sends until it has `ended`, without bars among the lines of the tasks."""

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
        """Send; if that fails, what lacks files is removed."""
        try:
            self.courier.run(self.ended)
        except SkyError as error:
            if not self.ended.is_set():
                what = f"{error.what}; {_abandoned(self._task, self.courier)}"
                self.problem = type(error)(what, error.then)


def _ignored(count: int) -> None:
    """Nobody counts these bytes."""


class _Copies:
    """Files as they were at first, whatever is edited until the last node has them."""

    def __init__(self) -> None:
        self._known: dict[str, Copy] = {}
        self._lock = Lock()

    def __call__(self, load: Load, advance: Callable[[int], object]) -> Iterator[bytes]:
        """Yield what is sent of a load. Raises UserError."""
        name = load.files.source
        try:
            yield from self.make(load).blocks(advance)
        except Unsendable as error:
            refused = error.refusals[0]
            what = f"{name}: {refused.name} {refused.reason}".replace("  ", " ")
            raise UserError(what, refused.hint) from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            what = f"{name}: no copy can be kept until all nodes have it: {why}"
            raise UserError(what, "name a folder with room in TMPDIR") from None

    def make(self, load: Load) -> Copy:
        """Return the copy of a load, which may still grow."""
        digest = load.archive.digest
        with self._lock:
            if digest not in self._known:
                self._known[digest] = Copy(packing.source(load.files), digest)
            return self._known[digest]
