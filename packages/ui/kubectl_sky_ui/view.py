"""What all views have: a title, a prompt for filters and commands, a status line, and keys."""

from typing import ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from kubectl_sky_ui.text import one_line
from kubectl_sky_ui.workspace import Workspace

COMMANDS = {
    "tasks": "show the tasks",
    "ns": "choose a namespace; ns NAME shows its tasks",
    "all": "show the tasks of all namespaces",
    "users": "show the tasks of all users, or only yours",
    "help": "show the keys",
    "quit": "quit",
}


# The last keys of each view, and of the footer.
GENERAL: list[BindingType] = [
    # With priority, the prompt is open before the next key is handled, however fast it follows.
    Binding("slash", "prompt(False)", "Filter", key_display="/", priority=True),
    Binding("colon", "prompt(True)", "Command", show=False, priority=True),
    Binding("question_mark", "app.help", "Help", key_display="?"),
    Binding("q", "app.stop_app", "Quit"),
    Binding("escape", "back", "Back", key_display="esc"),
]


class Prompt(Input):
    """The line for a filter or a command."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self) -> None:
        super().__init__(compact=True, id="prompt", select_on_focus=False, max_length=200)
        self.is_command = False

    def action_cancel(self) -> None:
        """Close the prompt, and drop what was typed."""
        view = self.screen
        assert isinstance(view, View)
        view.close_prompt("")


class View(Screen[None]):
    """A screen with the same title, prompt and status line; its keys end with GENERAL."""

    AUTO_FOCUS = "#content"
    filters = True  # whether `/` filters what the view shows

    def __init__(self) -> None:
        super().__init__()
        self.filter = ""

    @property
    def sky(self) -> Workspace:
        return cast("Workspace", self.app)

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield self.content()
        yield Horizontal(Static(id="sigil"), Prompt(), id="line")
        yield Static(id="status")
        yield Footer(show_command_palette=False, compact=True)

    def content(self) -> Widget:
        """Return the widget in the middle, with the id `content`."""
        raise NotImplementedError

    def heading(self) -> str:
        raise NotImplementedError

    def update_content(self) -> None:
        """Show the current state; called after changes and every second."""

    def idle_status(self) -> Text:
        return Text()

    def on_mount(self) -> None:
        self.query_one("#line").display = False

    def on_screen_resume(self) -> None:
        """Show what has changed meanwhile, after the first layout."""
        self.call_after_refresh(self.update_view)

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self.call_after_refresh(self.update_view)

    def update_view(self) -> None:
        if not (self.is_attached and self.query("#status")):  # closed, or not laid out yet
            return
        self.update_content()
        parts = [self.heading(), f"/{self.filter}" if self.filter else "", self.sky.heading()]
        title = " · ".join(one_line(part) for part in parts if part)
        self.query_one("#title", Static).update(
            Text(f" {title}", "bold", no_wrap=True, overflow="ellipsis")
        )
        status = self.sky.status() or self.idle_status()
        status.no_wrap = True
        status.overflow = "ellipsis"
        self.query_one("#status", Static).update(status)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Leave out the keys that do nothing here."""
        if action == "back":
            return bool(self.filter) or self.sky.can_go_back
        if action == "prompt" and isinstance(self.focused, Prompt):
            return False  # the key is a part of the text
        return action != "prompt" or self.filters or parameters == (True,)

    def action_prompt(self, is_command: bool) -> None:
        prompt = self.query_one(Prompt)
        prompt.is_command = is_command
        prompt.suggester = SuggestFromList(COMMANDS) if is_command else None
        self.query_one("#sigil", Static).update(Text(":" if is_command else "/"))
        self.query_one("#line").display = True
        prompt.value = "" if is_command else self.filter
        self.set_focus(prompt)

    def close_prompt(self, text: str) -> None:
        """Close the prompt; `text` is the filter, or the command."""
        prompt = self.query_one(Prompt)
        self.query_one("#line").display = False
        self.set_focus(self.query_one("#content"))
        if not prompt.is_command:
            self.set_filter(text)
        elif text.strip():
            self.sky.run_command(text.strip())

    def set_filter(self, text: str) -> None:
        if text != self.filter:
            self.filter = text
            self.refresh_bindings()
            self.update_view()

    def on_input_changed(self, event: Input.Changed) -> None:
        prompt = event.input
        if isinstance(prompt, Prompt) and prompt.has_focus and not prompt.is_command:
            self.set_filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.close_prompt(event.value)

    def action_back(self) -> None:
        if self.filter:
            self.set_filter("")
        elif self.sky.can_go_back:
            self.sky.pop_screen()
