"""The differences that stay, each with its reason: `differences.yaml`, and the README's table."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import yaml

from tests.practice.conformance import Scene
from tests.practice.scenes import SCENES

README = Path(__file__).parent.parent.parent / "kubectl_sky" / "practice" / "README.md"
UPDATING = bool(os.environ.get("UPDATE_GOLDEN"))
REASONS = yaml.safe_load(Path(__file__).with_name("reasons.yaml").read_text())

_FILE = Path(__file__).with_name("differences.yaml")
_BEGIN, _END = "<!-- differences: begin -->\n", "<!-- differences: end -->\n"
_WIDTH = 60  # of a line of output in the table


@dataclass(frozen=True)
class Difference:
    """What a command says on the real cluster (`-`) and on the practice cluster (`+`)."""

    scene: str
    command: str
    why: str
    lines: list[str]

    @classmethod
    def read(cls) -> list[Self]:
        """Return all."""
        return [cls(**entry) for entry in yaml.safe_load(_FILE.read_text()) or []]


def of_scene(scene: Scene) -> dict[str, list[str]]:
    """Return the known differences of a scene, by the title of the step."""
    return {known.command: known.lines for known in Difference.read() if known.scene == scene.name}


def keep(scene: Scene, found: dict[str, list[str]]) -> None:
    """Write the differences of a scene anew; those that are new have no reason yet."""
    known = Difference.read()
    reasons = {one.command: one.why for one in known if one.scene == scene.name}
    fresh = [Difference(scene.name, t, reasons.get(t, ""), lines) for t, lines in found.items()]
    everything = [one for one in known if one.scene != scene.name] + fresh
    order = [other.name for other in SCENES]
    everything.sort(key=lambda one: order.index(one.scene))
    text = yaml.safe_dump([asdict(one) for one in everything], sort_keys=False, width=10000)
    _FILE.write_text(text)


def table() -> str:
    """Return the README's part on the comparison."""
    known = Difference.read()
    count = sum(step.shown for scene in SCENES for step in scene.steps)
    told = (
        f"{count} commands in {len(SCENES)} scenes: {count - len(known)} are answered alike,"
        f" {len(known)} are not.\n\n"
    )
    return told + "\n".join(_rows(known)) + "\n"


def readme() -> str:
    """Return the README as it should be."""
    head, rest = README.read_text().split(_BEGIN)
    _, tail = rest.split(_END)
    return f"{head}{_BEGIN}\n{table()}\n{_END}{tail}"


def _rows(known: list[Difference]) -> Iterator[str]:
    yield "| `kubectl …` | a real cluster | here | why |\n|---|---|---|---|"
    for one in known:
        real, here = (_cell(one.lines, sign) for sign in "-+")
        yield f"| {_code(one.command)} | {real} | {here} | {REASONS[one.why]} |"


def _cell(lines: list[str], sign: str) -> str:
    """The first line of one side, and how many there are."""
    mine = [line[1:].strip() for line in lines if line.startswith(sign)]
    told = [line for line in mine if line] or [""]
    more = f" (of {len(mine)} lines)" if len(mine) > 1 else ""
    return _code(told[0]) + more


def _code(text: str) -> str:
    cut = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
    return f"`` {cut} ``".replace("|", "\\|").replace("\n", " ") if cut else ""
