"""What all views share: the session, the scope, the tasks, errors, and threads that read them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic

from rich.text import Text
from textual.app import App

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import multikueue, stop
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words.owners import User
from kubectl_sky_ui import feeds
from kubectl_sky_ui.feeds import TaskFeed
from kubectl_sky_ui.text import error_text, key_of, name_of, one_line

_NOTE_SECONDS = 10.0  # seconds that a note stays in the status line
_CONNECTION = "connection"
_WATCH = "watch"
_MIN_SCREENS = 2  # Textual's own, which is empty, and the tasks


class Workspace(App[None]):
    """Tasks of a cluster, read in threads, and a stack of views that show them."""

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

    def update_view(self) -> None:
        raise NotImplementedError

    def run_command(self, text: str) -> None:
        """Run a command of the prompt, such as `ns team`; a beginning of its name is enough."""
        raise NotImplementedError

    def in_background(self, name: str, work: Callable[[], object]) -> Future[object]:
        """Run work that waits for the cluster; it shows its result with `from_thread`."""
        future = parallel.run_future(work, name=name)
        future.add_done_callback(self._check)
        return future

    def _check(self, future: Future[object]) -> None:
        if error := future.exception():
            self.from_thread(self._crash, error)

    def from_thread(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call back in the thread of the screen, without waiting for it."""
        with suppress(RuntimeError):  # the event loop has ended
            self.call_later(callback, *arguments)

    def _crash(self, error: BaseException) -> None:
        raise error

    def start_reading(self) -> None:
        self.read_tasks()
        report = partial(self.from_thread, self._show_connection)
        check = partial(feeds.check_connection, self.session, report, self._stopping)
        self.in_background("connection", check)

    def on_unmount(self) -> None:
        self._stopping.set()
        if self._feed:
            self._feed.stop.set()

    def read_tasks(self) -> None:
        """Watch the tasks of the current scope, and forget those of the one before."""
        if self._feed:
            self._feed.stop.set()

        self.tasks = None
        self._by_key = {}
        self._errors.pop(_WATCH, None)

        user = None if self.all_users else self._user
        scope = Scope(self.namespace, user)
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
            self.tasks = tasks
            self._by_key = {key_of(task): task for task in tasks}
            self.update_view()

    def _watch_failed(self, feed: TaskFeed, error: SkyError) -> None:
        if feed is self._feed:
            self._errors[_WATCH] = error
            self.update_view()

    def _show_connection(self, error: SkyError | None) -> None:
        self._errors.pop(_CONNECTION, None)
        if error:
            self._errors[_CONNECTION] = error
        self.update_view()

    def task_with_key(self, key: str) -> TaskStatus | None:
        return self._by_key.get(key)

    def heading(self) -> str:
        users = "all users" if self.all_users else self._user.name
        return f"{self.namespace or 'all namespaces'} · {users} · {self.session.context}"

    def status(self) -> Text:
        for error in self._errors.values():
            return error_text(error, "retrying")
        return self._note.copy() if monotonic() < self._note_until else Text()

    def show_note(self, text: str | Text) -> None:
        """Show a note in the status line for a while."""
        self._note = Text(one_line(text)) if isinstance(text, str) else text
        self._note_until = monotonic() + _NOTE_SECONDS
        self.update_view()

    def show_task_list(self) -> None:
        while self.can_go_back:
            self.pop_screen()

    @property
    def can_go_back(self) -> bool:
        return len(self.screen_stack) > _MIN_SCREENS

    def choose_namespace(self, name: str | None) -> None:
        self.show_task_list()
        if name != self.namespace:
            self.namespace = name
            self.read_tasks()

    def stop_task(self, task: TaskStatus) -> None:
        """Delete a task in a thread, and say how it went."""
        self.show_note(f"stopping task {task.id} ({name_of(task)})")
        self._stops.append(self.in_background("stop", partial(self._stop, task)))

    def _stop(self, task: TaskStatus) -> None:
        try:
            warnings = stop.stop(self.session, [task])
        except SkyError as error:
            self._stop_error = error
            self.from_thread(self._show_stop_error, error)
            return
        work = partial(self._wait_until_gone, task, warnings)
        self.in_background("gone", work)

    def _wait_until_gone(self, task: TaskStatus, warnings: Sequence[str]) -> None:
        try:
            remaining = multikueue.wait_until_gone(self.session, [task])
        except SkyError as error:
            self.from_thread(self.show_note, error_text(error))
            return
        text = f"task/{task.id} ({name_of(task)}) stopped"
        text = f"still being deleted: {remaining[0]}" if remaining else text
        suffix = "".join(f"; warning: {warning}" for warning in warnings)
        self.from_thread(self.show_note, f"{text}{suffix}")

    def _show_stop_error(self, error: SkyError) -> None:
        self._stop_error = None
        self.show_note(error_text(error))

    def finish_stops(self) -> None:
        """Wait until tasks are stopped that the user has confirmed. Raises SkyError."""
        wait(self._stops)
        if self._stop_error:
            raise self._stop_error
