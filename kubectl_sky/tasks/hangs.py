"""Find which nodes of running tasks hang, and do what their files say about it."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import monotonic

from msgspec.structs import replace

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError
from kubectl_sky.observe.hangs import Hang, find_hang, list_silent
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import ranks
from kubectl_sky.words import age, assets, names

_MAX_LISTED = 16  # tasks of a list whose silence is looked for: the newest
_MAX_LOOKED_AT = 4  # of these, whose programs are looked for
_LOOK_SECONDS = 30.0  # between two looks of a client that waits
_SETTLED = timedelta(seconds=10)  # since the start of a node, whose log is read for a list then
_KILL_SECONDS = 15.0


def explain_silent(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    read_limit: Callable[[], timedelta],
) -> list[TaskStatus]:
    """Return listed tasks; those of several running nodes with which of them hang."""
    hangs = find_hangs(session, namespace, tasks, read_limit)
    return [
        replace(task, silence=_describe(task, hang)) if hang else task
        for task, hang in zip(tasks, hangs, strict=True)
    ]


def _describe(task: TaskStatus, hang: Hang) -> str:
    return f"{hang.text}: kubectl sky doctor {task.id}"


def find_hangs(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    read_limit: Callable[[], timedelta],
) -> list[Hang | None]:
    """Return which nodes of each listed task hang.

    The limit is read if there is a task of several running nodes; 0 means that none is looked at.
    Reads the last lines of up to two logs for each, and not for more than 16 tasks: of the first
    node, and of the one that uses the least CPU by one request for all. Where those that have
    printed are silent for unusually long, or longer than the limit, all nodes are looked at, of up
    to 4 tasks.
    """
    now = session.now()
    running = {id(task): nodes for task in tasks if (nodes := ranks.list_running(task))}
    limit = read_limit() if running else timedelta(0)

    def has_settled(task: TaskStatus) -> bool:
        starts = [age.parse(node.started_at) for node in running.get(id(task), ())]
        return bool(starts) and all(start and now - start >= _SETTLED for start in starts)

    due = list(filter(has_settled, tasks))[:_MAX_LISTED] if limit else []
    single = {names.TASK_ID: tasks[0].id} if len(tasks) == 1 else {names.TASK: "true"}
    cpus = ranks.read_cpus(session, namespace, single) if due else {}

    def is_silent(task: TaskStatus) -> bool:
        nodes = running[id(task)]
        idlest = min(nodes, key=lambda node: cpus.get(node.pod, 0.0))
        looked_at = {node.index: node for node in (nodes[0], idlest)}.values()
        activities = [ranks.read_log(session, task, node) for node in looked_at]
        silences = [silence for it in activities if (silence := it.silence(now)) is not None]
        has_long_been = bool(silences) and min(silences) >= limit
        return has_long_been or any(
            it.limit is not None and list_silent([it], now) for it in activities
        )

    flags = parallel.map_parallel(is_silent, due)
    silent = [task for task, flag in zip(due, flags, strict=True) if flag][:_MAX_LOOKED_AT]

    def look(task: TaskStatus) -> Hang | None:
        return find_hang(ranks.read(session, task, quiet=True), session.now())

    found = dict(zip(map(id, silent), parallel.map_parallel(look, silent), strict=True))
    return [found.get(id(task)) for task in tasks]


class HangReporter:
    """Note once which node of a task hangs, and do what its file says, while a client waits.

    The limit is that of `find_hangs`, unless the file says what is done. Only a client that `leads`
    does it. It looks in a thread: that may take a minute.
    """

    def __init__(
        self,
        session: Session,
        note: Callable[[str], None],
        read_limit: Callable[[], timedelta],
        leads: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session = session
        self._note = note
        self._read_limit = read_limit
        self._leads = leads
        self._look: Future[Hang | None] | None = None
        self._next_look = monotonic() + _LOOK_SECONDS
        self._is_silent = False
        self._has_acted = False

    def __call__(self, task: TaskStatus) -> None:
        """Look for it; called often, it does so every half a minute."""
        if self._look is None:
            if monotonic() >= self._next_look and ranks.list_running(task):
                self._look = parallel.run_future(self._find, task, name="hang")
            return
        if not self._look.done():
            return
        hang = None
        with suppress(SkyError):  # another look may succeed
            hang = self._look.result()
        self._look = None
        self._next_look = monotonic() + _LOOK_SECONDS

        if hang and not self._is_silent:
            self._note(f"{task.name}: {_describe(task, hang)}")
        if hang:
            self._act(task, hang)
        self._is_silent = hang is not None
        self._has_acted = self._has_acted and hang is not None

    def _find(self, task: TaskStatus) -> Hang | None:
        read_limit = self._read_limit
        if task.on_hang:
            read_limit = partial(_read_delay, task)
        (hang,) = find_hangs(self._session, task.namespace, [task], read_limit)
        return hang

    def _act(self, task: TaskStatus, hang: Hang) -> None:
        """Do what the file says, once, when the time is over."""
        if not task.on_hang or self._has_acted:
            return
        if hang.silence < _read_delay(task) or not self._leads():
            return
        from kubectl_sky.spec.lifecycle import OnHang  # noqa: PLC0415 -- most tasks have no such
        from kubectl_sky.tasks.stacks import dump  # noqa: PLC0415

        self._has_acted = True
        self._note(f"{task.name}: {hang.text}{hang.more}")
        with suppress(SkyError):
            self._note(f"{task.name}: {dump(self._session, task, quiet=True).summary}")
        if not OnHang(task.on_hang.split()[0]).ends:
            return
        if not hang.is_certain:
            self._note(f"{task.name}: on_hang: nothing is stopped: the nodes may go on")
            return
        for text in stop_programs(self._session, task, hang):
            self._note(f"{task.name}: {text}")


def _read_delay(task: TaskStatus) -> timedelta:
    """Return after how much silence something is done about a task."""
    from kubectl_sky.spec.pipeline import seconds  # noqa: PLC0415 -- most tasks have no such

    return timedelta(seconds=seconds(task.on_hang.partition(" ")[2]))


def stop_programs(session: Session, task: TaskStatus, hang: Hang) -> list[str]:
    """Kill the programs of the nodes that hang, which then fail; return what was done, in lines."""
    from kubectl_sky.tasks.exec import in_nodes, read_script  # noqa: PLC0415 -- not for a list

    script = assets.read("runtime", "kill.sh")
    nodes = [node for node in ranks.list_running(task) if node.index in hang.ranks]
    answers = in_nodes(
        nodes,
        lambda node, stop: read_script(
            session, (task.namespace, node.pod), [script, hang.text], _KILL_SECONDS, stop
        ),
    )
    return [_describe_answer(rank, answer) for rank, answer in answers.items()]


def _describe_answer(rank: int, answer: str | SkyError) -> str:
    if isinstance(answer, SkyError):
        return f"the program of node-{rank} could not be killed: {answer.what}"
    if answer.strip() != "killed":
        return f"the program of node-{rank} could not be killed: none runs"
    return f"the program of node-{rank} was killed, because it hung"
