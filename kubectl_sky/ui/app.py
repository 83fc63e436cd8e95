"""The application: the tasks that all views show, the scope, errors, and the end."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Resize

from kubectl_sky.actions import stop
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.ui import feeds
from kubectl_sky.ui.feeds import TaskFeed
from kubectl_sky.ui.text import error_text, one_line
from kubectl_sky.ui.view import COMMANDS, View
from kubectl_sky.ui.views import HelpView, NamespaceList, TaskList, TooSmall, key_of, name_of
from kubectl_sky.words.owners import User

_NOTE_SECONDS = 10.0  # seconds that a note stays in the status line
_TICK_SECONDS = 1.0  # seconds between updates of ages
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CONNECTION, _WATCH = "connection", "watch"
_MIN_SCREENS = 2  # Textual's own, which is empty, and the tasks
_MIN_COLUMNS, _MIN_ROWS = 40, 12  # of a terminal

_CSS = """
#title { height: 1; background: $panel; }
#content { height: 1fr; }
#line { height: 1; }
#sigil { width: 2; color: $accent; }
#prompt { width: 1fr; }
#status { height: 1; }
#text { padding: 0 1; }
DataTable > .datatable--cursor { background: $primary-muted; }  /* states stay readable on it */
DataTable:nocolor > .datatable--cursor { text-style: bold reverse; }
StopQuestion, TooSmall { align: center middle; }
#question {
    width: 58; max-width: 100%; height: auto;
    border: round $error; padding: 0 1; background: $surface;
}
"""


class SkyApp(App[None]):
    """Show tasks, nodes, logs and diagnoses. All requests are sent from other threads."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True)
    ]

    def __init__(
        self, session: Session, user: User, namespace: str | None, all_users: bool
    ) -> None:
        # Without colours, those of the terminal: Textual's greys are hard to read.
        super().__init__(ansi_color="NO_COLOR" in os.environ or None)
        self.session = session
        self.namespace = namespace  # None: all
        self.all_users = all_users
        self.tasks: Sequence[TaskStatus] | None = None  # None: not read yet
        self.bug: Exception | None = None
        self._user = user
        self._by_key: dict[str, TaskStatus] = {}
        self._errors: dict[str, SkyError] = {}  # by what fails: connection, watch
        self._note = Text()
        self._note_until = 0.0
        self._feed: TaskFeed | None = None
        self._stopping = Event()
        self._stops: list[Future[object]] = []
        self._stop_error: SkyError | None = None  # not shown yet

    # The start and the end

    def on_mount(self) -> None:
        """Show the tasks, and read them in a thread."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.exit, None, 128 + number)
        if self.no_color:
            self.theme = "ansi-dark"
        self.push_screen(TaskList())
        self._read_tasks()
        check = partial(feeds.check_connection, self.session, self._report, self._stopping)
        self.in_background("connection", check)
        self.set_interval(_TICK_SECONDS, self.update_view)

    def on_resize(self, event: Resize) -> None:
        """Cover the views while the terminal is too small for a question, for instance."""
        small = event.size.width < _MIN_COLUMNS or event.size.height < _MIN_ROWS
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall(_MIN_COLUMNS, _MIN_ROWS))
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    def on_unmount(self) -> None:
        """Stop the threads."""
        self._stopping.set()
        if self._feed:
            self._feed.stop.set()

    def action_interrupt(self) -> None:
        """End as other commands do after Ctrl-C."""
        self.exit(return_code=128 + signal.SIGINT)

    def action_stop_app(self) -> None:
        """Quit."""
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """Keep the bug, which the command line reports."""
        self.bug = self.bug or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave the screen without Textual's traceback: it prints values, which may be secret."""
        self.panic()

    # Threads

    def in_background(self, name: str, work: Callable[[], object]) -> Future[object]:
        """Run work that waits for the cluster; it shows its result with `from_thread`."""
        future = parallel.run_future(work, name=name)
        future.add_done_callback(self._check)
        return future

    def _check(self, future: Future[object]) -> None:
        """Report the bug of a thread, in the thread of the screen."""
        if error := future.exception():
            self.from_thread(self._crash, error)

    def from_thread(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call back in the thread of the screen, without waiting for it."""
        with suppress(RuntimeError):  # the event loop has ended
            self.call_later(callback, *arguments)

    def _crash(self, error: BaseException) -> None:
        raise error

    # What the views show

    def _read_tasks(self) -> None:
        """Watch the tasks of the current scope, and forget those of the one before."""
        if self._feed:
            self._feed.stop.set()
        self.tasks, self._by_key = None, {}
        self._errors.pop(_WATCH, None)
        scope = Scope(self.namespace, None if self.all_users else self._user)
        self._feed = TaskFeed(
            self.session,
            scope,
            partial(self.from_thread, self._show_tasks),
            partial(self.from_thread, self._watch_failed),
        )
        self.in_background("tasks", self._feed.run)
        self.update_view()

    def _show_tasks(self, feed: TaskFeed, tasks: Sequence[TaskStatus]) -> None:
        if feed is self._feed:  # not of an earlier scope
            self._errors.pop(_WATCH, None)
            self.tasks, self._by_key = tasks, {key_of(task): task for task in tasks}
            self.update_view()

    def _watch_failed(self, feed: TaskFeed, error: SkyError) -> None:
        if feed is self._feed:
            self._errors[_WATCH] = error
            self.update_view()

    def _report(self, error: SkyError | None) -> None:
        self.from_thread(self._show_connection, error)

    def _show_connection(self, error: SkyError | None) -> None:
        if error:
            self._errors[_CONNECTION] = error
        else:
            self._errors.pop(_CONNECTION, None)
        self.update_view()

    def task_with_key(self, key: str) -> TaskStatus | None:
        """Return a task by the key of its row."""
        return self._by_key.get(key)

    def heading(self) -> str:
        """Return the scope, for the title."""
        users = "all users" if self.all_users else self._user.name
        return f"{self.namespace or 'all namespaces'} · {users} · {self.session.context}"

    def status(self) -> Text:
        """Return errors, else the last note."""
        for error in self._errors.values():
            return error_text(error, "retrying")
        return self._note.copy() if monotonic() < self._note_until else Text()

    def show_note(self, text: str | Text) -> None:
        """Show a note in the status line for a while."""
        self._note = Text(one_line(text)) if isinstance(text, str) else text
        self._note_until = monotonic() + _NOTE_SECONDS
        self.update_view()

    def update_view(self) -> None:
        """Show the current state in the view on top."""
        view = next((view for view in reversed(self.screen_stack) if isinstance(view, View)), None)
        if view:
            view.update_view()

    # Commands

    def run_command(self, text: str) -> None:
        """Run a command of the prompt, such as `ns team`; a beginning of its name is enough."""
        word, _, argument = text.partition(" ")
        namespace = argument.strip()
        actions: Mapping[str, Callable[[], object]] = {
            "tasks": self.show_task_list,
            "ns": partial(self.choose_namespace, namespace)
            if namespace
            else self.action_namespaces,
            "all": self.action_all_namespaces,
            "users": self.action_toggle_users,
            "help": self.action_help,
            "quit": self.action_stop_app,
        }
        names = [name for name in COMMANDS if name.startswith(word.lower())]
        if len(names) == 1:
            actions[names[0]]()
        else:
            self.show_note(f'unknown command "{text}"; press ? for help')

    def show_task_list(self) -> None:
        """Go back to the tasks."""
        while self.can_go_back:
            self.pop_screen()

    @property
    def can_go_back(self) -> bool:
        """Whether another view is below."""
        return len(self.screen_stack) > _MIN_SCREENS

    def go_back(self) -> None:
        """Go back to the view before."""
        if self.can_go_back:
            self.pop_screen()

    def choose_namespace(self, name: str | None) -> None:
        """Show the tasks of a namespace, of all for None."""
        self.show_task_list()
        if name != self.namespace:
            self.namespace = name
            self._read_tasks()

    def action_all_namespaces(self) -> None:
        """Show the tasks of all namespaces."""
        self.choose_namespace(None)

    def action_namespaces(self) -> None:
        """Choose a namespace."""
        self.push_screen(NamespaceList())

    def action_toggle_users(self) -> None:
        """Show the tasks of all users, or only the user's."""
        self.show_task_list()
        self.all_users = not self.all_users
        self._read_tasks()

    def action_help(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, HelpView):
            self.push_screen(HelpView())

    def stop_task(self, task: TaskStatus) -> None:
        """Delete a task in a thread, and say how it went."""
        self.show_note(f"stopping task {task.id} ({name_of(task)})")
        self._stops.append(self.in_background("stop", partial(self._stop, task)))

    def _stop(self, task: TaskStatus) -> None:
        try:
            left = stop.stop(self.session, [task])
        except SkyError as error:
            self._stop_error = error
            self.from_thread(self._show_stop_error, error)
            return
        warnings = "".join(f"; warning: {stop.secret_warning(each)}" for each in left)
        self.from_thread(self.show_note, f"task/{task.id} ({name_of(task)}) stopped{warnings}")

    def _show_stop_error(self, error: SkyError) -> None:
        self._stop_error = None
        self.show_note(error_text(error))

    def finish_stops(self) -> None:
        """Wait until tasks are stopped that the user has confirmed. Raises SkyError."""
        wait(self._stops)
        if self._stop_error:
            raise self._stop_error


def run(session: Session, user: User, namespace: str | None, all_users: bool) -> int:
    """Show the interface until the user quits; return the exit code. Raises what failed."""
    app = SkyApp(session, user, namespace, all_users)
    app.run(mouse=False)  # so that the terminal selects text as usual
    app.finish_stops()
    if app.bug:
        raise app.bug
    return app.return_code or 0
