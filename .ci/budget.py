"""Compare the lines of Python in each folder with budget.toml; exit with 1 if a folder has more."""

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def count() -> Counter[str]:
    """Return the lines of each folder, and of `plugin`, `practice` and `tests`."""
    lines: Counter[str] = Counter()
    for top in ("kubectl_sky", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            folder = "/".join(parts[: min(2, len(parts) - 1)])
            number = len(path.read_bytes().splitlines())
            lines[folder] += number
            whole = {"tests": "tests", "kubectl_sky/practice": "practice"}
            lines["all " + whole.get(top, whole.get(folder, "plugin"))] += number
    return lines


def main() -> None:
    """Print what is above the budget, or the sums."""
    budget = tomllib.loads((ROOT / "budget.toml").read_text())["lines"]
    lines = count()
    over = [
        f"{folder}: {number} lines, budget {budget.get(folder, 0)}"
        for folder, number in sorted(lines.items())
        if number > budget.get(folder, 0)
    ]
    gone = [f"{folder}: in budget.toml, but not found" for folder in budget if not lines[folder]]
    if over or gone:
        hint = "take something away, or raise the number in budget.toml and say there why"
        sys.exit("\n".join([*over, *gone, f"hint: {hint}"]))
    sums = (f"{name[4:]} {lines[name]} of {budget[name]}" for name in budget if name[:4] == "all ")
    sys.stdout.write(f"lines: {', '.join(sums)}\n")


if __name__ == "__main__":
    main()
