"""Draw the folders of the packages, floor above floor, each as wide as its code is long.

Usage: .venv/bin/python programs/house.py [ROOT] > docs/images/house.svg

A folder stands on those that it imports. Red lines are imports that lead up, or to the same floor.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

Room = tuple[str, str]  # package and folder
_WIDTH = 1000.0
_HEIGHT = 46
_FLOOR = 74
_MARGIN = 20
_FLAT = ("kubectl_sky_practice", "kubectl_sky_ui")  # packages without folders
_COLOURS = {
    "kubectl_sky": "#dbeafe",
    "kubectl_sky_practice": "#dcfce7",
    "kubectl_sky_server": "#fef3c7",
    "kubectl_sky_ui": "#fce7f3",
}


def main() -> None:
    root = Path(sys.argv[1] if sys.argv[1:] else ".")
    folders = [root / "kubectl_sky", *sorted(root.glob("packages/*/kubectl_sky_*"))]
    lines: Counter[Room] = Counter()
    imports: dict[Room, set[Room]] = defaultdict(set)
    for folder in folders:
        for path in folder.rglob("*.py"):
            room = _room((folder.name, *path.relative_to(folder).with_suffix("").parts))
            if path.parent == folder and path.stem.startswith("__"):
                continue  # where a program starts: it stands on no floor
            text = path.read_text(encoding="utf-8")
            lines[room] += len(text.splitlines())
            imports[room] |= {other for other in _find_imports(text) if other != room}
    known = {room: imports[room] & set(lines) for room in lines}
    sys.stdout.write(_draw(lines, known))


def _room(parts: tuple[str, ...]) -> Room:
    """Return the folder of a module; a package without folders is one room."""
    package = parts[0]
    if package in _FLAT:
        return (package, package.removeprefix("kubectl_sky_"))
    folder = parts[1] if len(parts) > 1 else "__init__"
    return (package, folder)


def _find_imports(text: str) -> Iterator[Room]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and "kubectl_sky" in node.module:
            parts = node.module.split(".")
            names = [parts] if len(parts) > 1 else [[*parts, alias.name] for alias in node.names]
            yield from (_room(tuple(name)) for name in names)


def _floors(imports: Mapping[Room, Iterable[Room]]) -> dict[Room, int]:
    """Return the floor of each room: above all that it imports, as far as there is no circle."""
    floors: dict[Room, int] = {}

    def climb(room: Room, path: tuple[Room, ...]) -> int:
        if room not in floors:
            below = [other for other in imports[room] if other not in path]
            floors[room] = 1 + max((climb(other, (*path, room)) for other in below), default=-1)
        return floors[room]

    for room in imports:
        climb(room, ())
    return floors


def _draw(lines: Mapping[Room, int], imports: Mapping[Room, Iterable[Room]]) -> str:
    floors = _floors(imports)
    top = max(floors.values())
    by_floor = {n: [room for room in sorted(lines) if floors[room] == n] for n in range(top + 1)}
    scale = _WIDTH / max(sum(map(_share, map(lines.get, rooms))) for rooms in by_floor.values())
    places: dict[Room, tuple[float, float, float]] = {}
    for floor, rooms in by_floor.items():
        left = float(_MARGIN)
        for room in rooms:
            width = _share(lines[room]) * scale
            places[room] = (left, _MARGIN + (top - floor) * _FLOOR, width)
            left += width

    height = 2 * _MARGIN + top * _FLOOR + _HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 2 * _MARGIN:.0f} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH + 2 * _MARGIN:.0f}" height="{height}" fill="white"/>',
    ]
    for room, others in sorted(imports.items()):
        parts += [
            _line(places[room], places[other], floors[room] > floors[other])
            for other in sorted(others)
        ]
    parts += [_box(room, lines[room], places[room]) for room in sorted(lines)]

    packages = Counter[str]()
    for (package, _), count in lines.items():
        packages[package] += count
    arrows = sum(len(set(others)) for others in imports.values())
    text = ", ".join(f"{name} {count:,} lines" for name, count in sorted(packages.items()))
    caption = f"{len(lines)} rooms, {top + 1} floors, {arrows} imports between rooms; {text}"
    parts.append(f'<text x="{_MARGIN}" y="{height - 8}">{escape(caption)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _share(count: int | None) -> float:
    """Return a width that leaves room for the name of a small folder."""
    return max(count or 0, 900) + 200


def _line(start: tuple[float, float, float], end: tuple[float, float, float], is_down: bool) -> str:
    colour = "#cbd5e1" if is_down else "#dc2626"
    left = start[0] + start[2] / 2
    right = end[0] + end[2] / 2
    return (
        f'<line x1="{left:.0f}" y1="{start[1] + _HEIGHT}" x2="{right:.0f}" y2="{end[1]}"'
        f' stroke="{colour}"/>'
    )


def _box(room: Room, count: int, place: tuple[float, float, float]) -> str:
    left, top, width = place
    middle = left + width / 2
    colour = _COLOURS.get(room[0], "#eeeeee")
    return (
        f'<rect x="{left + 3:.0f}" y="{top}" width="{width - 6:.0f}" height="{_HEIGHT}" rx="5"'
        f' fill="{colour}" stroke="#475569"/>'
        f'<text x="{middle:.0f}" y="{top + 20}" text-anchor="middle">{escape(room[1])}</text>'
        f'<text x="{middle:.0f}" y="{top + 36}" text-anchor="middle" fill="#475569">'
        f"{count:,}</text>"
    )


if __name__ == "__main__":
    main()
