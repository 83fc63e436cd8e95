"""The views: tasks, the nodes of a task, doctor, namespaces, help, and the question of stop."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import DataTable, Static

from kubectl_sky.cluster import objects
from kubectl_sky.errors import SkyError
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.pipelines import reason
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import doctor
from kubectl_sky.words import age, kinds
from kubectl_sky_ui.logs import LogView
from kubectl_sky_ui.table import MAX_ROWS, Table
from kubectl_sky_ui.text import error_text, key_of, name_of, one_line, style, verdict_text
from kubectl_sky_ui.view import COMMANDS, GENERAL, View
from kubectl_sky_ui.workspace import Workspace

_TASK_COLUMNS = ("NAMESPACE", "ID", "NAME", "STATUS", "NODES", "AGE", "USER", "REASON")
_NODE_COLUMNS = ("NODE", "STATUS", "EXIT", "RESTARTS", "FOR", "HOST", "POD", "REASON")
_ALL_NAMESPACES = "*"  # no namespace has this name

_KEYS = {
    "enter": "show the nodes of a task; the log of a node",
    "l": "follow the logs of a task or a node",
    "d": "explain why a task does not start or has failed",
    "ctrl-k": "stop a task, after a question; ctrl-d too",
    "/": "filter by text, while you type; esc removes the filter",
    "u": "show the tasks of all users, or only yours",
    "n": "choose a namespace",
    "0": "show all namespaces",
    ":": "type a command, see below",
    "esc": "go back",
    "q": "quit; ctrl-c too",
    "j k g G": "move as in vi; the arrows, page up and page down work too",
    "s": "in logs: stop or resume scrolling",
    "t": "in logs: show or hide the times",
    "w": "in logs: wrap long lines or not",
}


class TaskActions(View):
    """The keys that act on a task."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "logs", "Logs"),
        Binding("d", "doctor", "Doctor"),
        Binding("ctrl+k,ctrl+d", "stop", "Stop"),
        *GENERAL,
    ]

    @property
    def selected_task(self) -> TaskStatus | None:
        raise NotImplementedError

    def action_logs(self) -> None:
        if self.selected_task:
            self.sky.push_screen(LogView(self.selected_task))

    def action_doctor(self) -> None:
        if self.selected_task:
            self.sky.push_screen(DoctorView(self.selected_task))

    def action_stop(self) -> None:
        task = self.selected_task
        if task:
            self.sky.push_screen(StopQuestion(task), partial(self._stop, task))

    def _stop(self, task: TaskStatus, confirmed: bool | None) -> None:
        if confirmed:
            self.sky.stop_task(task)


class TaskList(TaskActions):
    """The tasks, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "app.toggle_users", "Users", show=False),
        Binding("n", "app.namespaces", "Namespaces", show=False),
        Binding("0", "app.all_namespaces", "All namespaces", show=False),
    ]

    def content(self) -> Widget:
        return Table(_TASK_COLUMNS, cut=("REASON", "USER", "NAMESPACE", "NODES", "AGE"))

    def heading(self) -> str:
        tasks = self.sky.tasks
        if tasks is None:
            return "reading tasks"
        count = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
        return f"first {MAX_ROWS} of {count}" if len(tasks) > MAX_ROWS else count

    @property
    def selected_task(self) -> TaskStatus | None:
        return self.sky.task_with_key(self.query_one(Table).selected)

    def update_content(self) -> None:
        now = datetime.now(UTC)
        rows = {}
        for task in self.sky.tasks or ():
            cells = _task_cells(task, now)
            if self.filter.lower() in " ".join(cells).lower():
                rows[key_of(task)] = cells
                if len(rows) == MAX_ROWS:
                    break
        hidden = {"NAMESPACE"} if self.sky.namespace else set()
        hidden |= set() if self.sky.all_users else {"USER"}
        kept = [index for index, title in enumerate(_TASK_COLUMNS) if title not in hidden]
        table = self.query_one(Table)
        table.titles = tuple(_TASK_COLUMNS[index] for index in kept)
        table.show({key: [cells[index] for index in kept] for key, cells in rows.items()})

    def idle_status(self) -> Text:
        task = self.selected_task
        if task:
            note = f": {one_line(task.note)}" if task.note else ""
            return Text.assemble(f"{one_line(name_of(task))} ", style(task.state), note)
        if self.sky.tasks is None:
            return Text()
        return Text("no task contains the filter" if self.filter else "no tasks found")

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        task = self.sky.task_with_key(event.row_key.value or "")
        if task:
            self.sky.push_screen(NodeList(task))


def _task_cells(task: TaskStatus, now: datetime) -> tuple[str, ...]:
    return (
        task.namespace,
        task.id,
        name_of(task),
        str(task.state),
        f"{task.ready}/{task.num_nodes}",
        age.since(task.created_at, now),
        task.user,
        reason(task),
    )


class NodeList(TaskActions):
    """The nodes of a task, as the watch of the tasks has them."""

    def __init__(self, task: TaskStatus) -> None:
        super().__init__()
        self._subject = task

    @property
    def selected_task(self) -> TaskStatus:
        """The task; its last state if it was deleted."""
        self._subject = self.sky.task_with_key(key_of(self._subject)) or self._subject
        return self._subject

    def content(self) -> Widget:
        return Table(_NODE_COLUMNS, cut=("POD", "RESTARTS", "HOST", "REASON", "FOR"))

    def heading(self) -> str:
        task = self.selected_task
        deleted = self.sky.tasks is not None and not self.sky.task_with_key(key_of(task))
        return f"{name_of(task)} {task.id} · {'deleted' if deleted else task.state}"

    def update_content(self) -> None:
        now = datetime.now(UTC)
        rows = {}
        for node in self.selected_task.nodes:
            cells = _node_cells(node, now)
            if self.filter.lower() in " ".join(cells).lower():
                rows[str(node.index)] = cells
        self.query_one(Table).show(rows)

    def idle_status(self) -> Text:
        node = self._node()
        if not node:
            return Text("the task has no nodes yet" if not self.selected_task.nodes else "")
        words = (node.reason, node.message)
        return Text.assemble(
            f"{one_line(node.name)} ",
            style(node.state),
            f" {one_line(': '.join(filter(None, words)))}",
        )

    def _node(self) -> NodeStatus | None:
        selected = self.query_one(Table).selected
        return next(
            (node for node in self.selected_task.nodes if str(node.index) == selected), None
        )

    def action_logs(self) -> None:
        node = self._node()
        if node:
            self.sky.push_screen(LogView(self.selected_task, node))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.action_logs()


def _node_cells(node: NodeStatus, now: datetime) -> tuple[str, ...]:
    """Return the cells of a node; FOR is how long its container has been running, or ran."""
    end = age.parse(node.ended_at) or now
    exit_code = "" if node.exit_code is None else str(node.exit_code)
    run_time = age.since(node.started_at, end) if node.started_at else ""
    return (
        node.name,
        str(node.state),
        exit_code,
        str(node.restarts),
        run_time,
        node.host,
        node.pod,
        node.reason,
    )


class _Page(View):
    """A text that can be scrolled."""

    filters = False

    def content(self) -> Widget:
        return VerticalScroll(Static(id="text"), id="content")

    def show_text(self, text: RenderableType) -> None:
        """Show a text, unless the view is closed or being closed."""
        for shown in self.query("#text").results(Static) if self.is_attached else ():
            shown.update(text)


class DoctorView(_Page):
    """Why a task does not start or has failed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "diagnose", "Again"), *GENERAL]

    def __init__(self, task: TaskStatus) -> None:
        super().__init__()
        self._subject = task

    def heading(self) -> str:
        return f"doctor {name_of(self._subject)} {self._subject.id}"

    def on_mount(self) -> None:
        super().on_mount()
        self.action_diagnose()

    def action_diagnose(self) -> None:
        self.show_text(Text("reading objects and events"))
        self.sky.in_background("doctor", partial(self._diagnose, self.sky))

    def _diagnose(self, sky: Workspace) -> None:
        try:
            text: RenderableType = verdict_text(doctor.diagnose(sky.session, self._subject))
        except SkyError as error:
            text = error_text(error, "press r to try again")
        sky.from_thread(self.show_text, text)


class HelpView(_Page):
    """The keys and the commands."""

    BINDINGS: ClassVar[list[BindingType]] = GENERAL

    def heading(self) -> str:
        return "keys"

    def on_mount(self) -> None:
        super().on_mount()
        keys = [f"{key:<9}{purpose}" for key, purpose in _KEYS.items()]
        commands = [f":{name:<8}{purpose}" for name, purpose in COMMANDS.items()]
        self.show_text(Text("\n".join([*keys, "", *commands])))


class NamespaceList(View):
    """The namespaces of the cluster."""

    BINDINGS: ClassVar[list[BindingType]] = GENERAL

    def __init__(self) -> None:
        super().__init__()
        self._names: Sequence[str] = ()

    def content(self) -> Widget:
        return Table(("NAMESPACE",))

    def heading(self) -> str:
        return "namespaces"

    def on_mount(self) -> None:
        super().on_mount()
        self.sky.in_background("namespaces", partial(self._list, self.sky))

    def _list(self, sky: Workspace) -> None:
        """List the namespaces, in a thread; the view may be closed meanwhile."""
        try:
            items = objects.list_all(sky.session, kinds.NAMESPACE)
        except SkyError as error:
            hint = "type :ns NAME to choose a namespace"
            sky.from_thread(sky.show_note, error_text(error, hint))
        else:
            names = sorted(item.metadata.name for item in items)
            sky.from_thread(self._show, names)

    def _show(self, names: Sequence[str]) -> None:
        self._names = names
        self.update_view()

    def update_content(self) -> None:
        rows = {name: (name,) for name in self._names if self.filter.lower() in name}
        first = {} if self.filter else {_ALL_NAMESPACES: ("all namespaces",)}
        self.query_one(Table).show(first | rows)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        name = event.row_key.value
        self.sky.choose_namespace(None if name == _ALL_NAMESPACES else name)


class StopQuestion(ModalScreen[bool]):
    """Ask whether to stop a task."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Stop"),
        Binding("n,escape,enter", "dismiss(False)", "Cancel"),
    ]

    def __init__(self, task: TaskStatus) -> None:
        super().__init__()
        self._subject = task

    def compose(self) -> ComposeResult:
        task = self._subject
        facts = {
            "name": name_of(task),
            "id": task.id,
            "status": str(task.state),
            "namespace": task.namespace,
            "user": task.user,
        }

        lines = [
            Text.assemble((f"{key:<11}", "dim"), one_line(text)) for key, text in facts.items()
        ]
        question = Text("Stop this task and delete its objects, logs included?", "bold")
        answers = Text.assemble(("y", "bold"), " stop   ", ("n", "bold"), " cancel")
        texts = (question, Text(), *lines, Text(), answers)

        with Vertical(id="question"):
            yield Static(Text("\n").join(texts))


class TooSmall(ModalScreen[None]):
    """What a terminal shows that is too small for the views."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.stop_app", "Quit")]

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self._columns = columns
        self._rows = rows

    def compose(self) -> ComposeResult:
        needed = f"{self._columns} columns and {self._rows} rows"
        yield Static(Text(f"The terminal is too small: it needs {needed}."))
