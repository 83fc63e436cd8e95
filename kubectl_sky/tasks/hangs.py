"""Find which nodes of running tasks hang, and do what their files say about it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
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
_END_SECONDS = 15.0


def explain_silent(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    read_limit: Callable[[], timedelta],
) -> list[TaskStatus]:
    """Return listed tasks; those of several running nodes with which of them hang."""
    hangs = find_hangs(session, namespace, tasks, read_limit)
    return [
        replace(task, silence=_describe(task, hangs[id(task)])) if id(task) in hangs else task
        for task in tasks
    ]


def _describe(task: TaskStatus, hang: Hang) -> str:
    return f"{hang.text}: kubectl sky doctor {task.id}"


def find_hangs(
    session: Session,
    namespace: str | None,
    tasks: Sequence[TaskStatus],
    read_limit: Callable[[], timedelta],
) -> Mapping[int, Hang]:
    """Return which nodes of listed tasks hang, by the `id()` of the task.

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
    cpus = ranks.read_cpus(session, namespace, {names.TASK: "true"}) if due else {}

    def is_silent(task: TaskStatus) -> bool:
        nodes = running[id(task)]
        idlest = min(nodes, key=lambda node: cpus.get(node.pod, 0.0))
        looked_at = {node.index: node for node in (nodes[0], idlest)}.values()
        activities = [ranks.read_log(session, task, node) for node in looked_at]
        silences = [silence for it in activities if (silence := it.silence(now)) is not None]
        return any(list_silent([it], now) for it in activities) or any(
            silence >= limit for silence in silences
        )

    flags = parallel.map_parallel(is_silent, due)
    silent = [task for task, flag in zip(due, flags, strict=True) if flag][:_MAX_LOOKED_AT]

    def look(task: TaskStatus) -> Hang | None:
        return find_hang(ranks.read(session, task, quiet=True), session.now())

    found = zip(map(id, silent), parallel.map_parallel(look, silent), strict=True)
    return {key: hang for key, hang in found if hang}


class HangReporter:
    """Note once which node of a task hangs, and do what its file says, while a client waits.

    A limit of 0 looks at none. Only a client that `leads` does what the file says.
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
        self._next_look = monotonic() + _LOOK_SECONDS
        self._is_silent = False
        self._has_acted = False

    def __call__(self, task: TaskStatus) -> None:
        """Look for it; called often, it does so every half a minute."""
        if monotonic() < self._next_look or not ranks.list_running(task):
            return
        hangs = find_hangs(self._session, task.namespace, [task], self._read_limit)
        hang = hangs.get(id(task))
        if hang and not self._is_silent:
            self._note(f"{task.name}: {_describe(task, hang)}")
        if hang:
            self._act(task, hang)
        self._is_silent = hang is not None
        self._has_acted = self._has_acted and hang is not None
        self._next_look = monotonic() + _LOOK_SECONDS

    def _act(self, task: TaskStatus, hang: Hang) -> None:
        """Do what the file says, once, when the time is over."""
        if not task.on_hang or self._has_acted:
            return
        from kubectl_sky.spec.lifecycle import OnHang  # noqa: PLC0415 -- most tasks have no such
        from kubectl_sky.spec.pipeline import seconds  # noqa: PLC0415
        from kubectl_sky.tasks.stacks import dump  # noqa: PLC0415

        action, _, after = task.on_hang.partition(" ")
        if hang.silence < timedelta(seconds=seconds(after)) or not self._leads():
            return
        self._has_acted = True
        self._note(f"{task.name}: {hang.text}{hang.more}")
        with suppress(SkyError):
            self._note(f"{task.name}: {dump(self._session, task).summary}")
        if not OnHang(action).ends or not hang.is_certain:
            return
        for text in end_nodes(self._session, task, hang):
            self._note(f"{task.name}: {text}")


def end_nodes(session: Session, task: TaskStatus, hang: Hang) -> list[str]:
    """End the programs of the nodes that hang, which then fail; return what was done, in lines."""
    from kubectl_sky.tasks.exec import in_nodes, read_script  # noqa: PLC0415 -- not for a list

    script = assets.read("runtime", "end.sh")
    nodes = [node for node in ranks.list_running(task) if node.index in hang.ranks]
    answers = in_nodes(
        nodes,
        lambda node, stop: read_script(
            session, (task.namespace, node.pod), script, _END_SECONDS, stop, hang.text
        ),
    )
    return [
        f"node-{rank} could not be ended: {answer.what}"
        if isinstance(answer, SkyError)
        else f"node-{rank} was ended, because it hung"
        for rank, answer in answers.items()
    ]
