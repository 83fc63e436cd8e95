"""A table that keeps its selection while rows change, with keys as in vi."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from kubectl_sky_ui.text import column_widths, one_line, style

MAX_ROWS = 1000  # more cannot be read, and would take long to draw

Rows = Mapping[str, Sequence[str]]  # cells by the key of the row


class Table(DataTable[Text]):
    """Rows of text, one of which is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open", key_display="enter"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]

    def __init__(self, titles: Sequence[str], cut: Sequence[str] = ()) -> None:
        super().__init__(cursor_type="row", cursor_foreground_priority="renderable", id="content")
        self.titles = tuple(titles)
        self._cut = cut
        self._widths: Mapping[str, int] = {}
        self._shown: Rows = {}

    @property
    def selected(self) -> str:
        if not self.row_count:
            return ""
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value or ""

    def show(self, rows: Rows) -> None:
        """Show the current rows; only cells that have changed are drawn again."""
        rows = {key: tuple(map(one_line, cells)) for key, cells in list(rows.items())[:MAX_ROWS]}
        widths = column_widths(self.titles, list(rows.values()), self.size.width, self._cut)
        if list(widths.items()) != list(self._widths.items()) or list(rows) != list(self._shown):
            self._refill(rows, widths)
        else:
            self._update(rows)
        self._shown = rows

    def _update(self, rows: Rows) -> None:
        for key, cells in rows.items():
            for title, old, new in zip(self.titles, self._shown[key], cells, strict=True):
                if new != old and title in self._widths:
                    self.update_cell(key, title, self._cell(title, new))

    def _refill(self, rows: Rows, widths: Mapping[str, int]) -> None:
        selected = self.selected
        self._widths = widths
        self.clear(columns=True)
        for title, width in widths.items():
            self.add_column(Text(title), width=width, key=title)
        for key, cells in rows.items():
            by_title = dict(zip(self.titles, cells, strict=True))
            self.add_row(*(self._cell(title, by_title[title]) for title in widths), key=key)
        if selected in rows:
            self.move_cursor(row=self.get_row_index(selected))

    def _cell(self, title: str, text: str) -> Text:
        cell = style(text) if title == "STATUS" else Text(text, no_wrap=True)
        cell.truncate(self._widths[title], overflow="ellipsis")
        return cell
