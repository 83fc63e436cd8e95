"""Tables of values in notebooks: HTML with every text escaped."""

from collections.abc import Iterable, Mapping
from html import escape
from itertools import islice

_MAX_ROWS = 200


def table(rows: Iterable[Mapping[str, object]], title: str = "") -> str:
    """Return an HTML table: a row for each mapping, with the keys of the first as header."""
    remaining = iter(rows)
    shown = list(islice(remaining, _MAX_ROWS))
    more = sum(1 for _ in remaining)
    lines = [_row("th", shown[0]), *(_row("td", row.values()) for row in shown)] if shown else []
    notes = [title, "" if shown or title else "none", f"and {more} more" if more else ""]
    before, none, after = (f"<p>{escape(text)}</p>" if text else "" for text in notes)
    return f"{before}{none}<table>{''.join(lines)}</table>{after}"


def _row(tag: str, cells: Iterable[object]) -> str:
    texts = ("" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"
