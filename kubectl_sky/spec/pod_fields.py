"""Where a misplaced field of a pod belongs, as schemas/pod.json has it."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Path, join_path

POD: Path = ("config", "kubernetes", "pod_config")
_NEVER = "ephemeralContainers"  # no pod can be created with them
_ALIKE = 0.8  # a name of another level is proposed from this similarity on
_MISSPELT = 0.85  # a name of the same level goes before the same name of another one
_COMMON = 10  # a name of more levels, such as `name`, does not say where it belongs
_MAX_LENGTH = 100  # characters that are compared

Level = tuple[Path, Mapping[str, Any]]  # a path below the pod, and the fields there


def find_place(path: Path) -> str:
    """Return where a field of a pod belongs: to a level near it, or to the only one that has it."""
    key = str(path[-1])
    parents = _parents_of(path)
    if not parents or key in parents[-1][1]:
        return ""
    count = sum(key in fields for fields in _definitions())
    is_misspelt = difflib.get_close_matches(key, parents[-1][1], n=1, cutoff=_MISSPELT)
    if is_misspelt:
        return ""
    above = parents[-2::-1]
    others = [*_all_levels()] if count == 1 else []
    below = [level for level in _below(parents[-1]) if key in level[1]]
    if len(below) > 1:
        names = [step for path, _ in below for step in path[len(parents[-1][0]) :] if step]
        return f"it belongs under {' or '.join(map(str, names))}"
    if count > _COMMON:
        return ""
    return _place(key, [*below, *above, *others])


def find_similar(path: Path) -> str:
    """Return a field of a level above that has a similar name, and where it belongs."""
    key = str(path[-1])
    parents = _parents_of(path)
    if any(key in fields for _, fields in parents):
        return ""
    for level_path, fields in reversed(parents):
        by_case = {name.lower(): name for name in fields}
        similar = difflib.get_close_matches(key.lower(), by_case, n=1, cutoff=_ALIKE)
        if similar:
            return f'"{by_case[similar[0]]}" belongs under {join_path((*POD, *level_path))}'
    return ""


def is_of_pod(path: Path) -> bool:
    return path[: len(POD)] == POD


def _place(key: str, levels: Iterable[Level]) -> str:
    places = (path for path, fields in levels if key in fields)
    place = next(places, None)
    return "" if place is None else f"it belongs under {join_path((*POD, *place))}"


def _parents_of(path: Path) -> list[Level]:
    """Return the levels above a field; none for a field of no pod, or a long name."""
    is_field = is_of_pod(path) and len(str(path[-1])) <= _MAX_LENGTH
    return [*_parents(path[len(POD) : -1])] if is_field else []


def _parents(steps: Path) -> Iterator[Level]:
    """Yield the levels from the pod down to the one at a path; names of maps end it."""
    rules = schema.load("pod.json")
    yield (), rules["properties"]
    for end, step in enumerate(steps, 1):
        if isinstance(step, int):
            continue
        if step not in rules.get("properties", {}):
            return
        rules, is_list = resolve(rules["properties"][step])
        if "properties" in rules:
            yield steps[: end + is_list], rules["properties"]


def _below(level: Level) -> Iterator[Level]:
    """Yield the levels directly below one."""
    path, fields = level
    for name, rules in fields.items():
        inner, is_list = resolve(rules)
        if "properties" in inner and name != _NEVER:
            index = (0,) if is_list else ()
            yield (*path, name, *index), inner["properties"]


def _all_levels() -> Iterator[Level]:
    """Yield the levels of a pod, from above; of alike ones, the first."""
    levels = [*_parents(())]
    seen = [fields for _, fields in levels]
    while levels:
        level = levels.pop(0)
        yield level
        for inner in _below(level):
            if not any(inner[1] is fields for fields in seen):
                seen.append(inner[1])
                levels.append(inner)


def _definitions() -> Iterator[Mapping[str, Any]]:
    for name, rules in schema.load("pod.json")["$defs"].items():
        if name != "EphemeralContainer":
            yield rules.get("properties", {})


def resolve(rules: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the rules of a value, or of the items of a list, and whether it is one."""
    is_list = "items" in rules
    inner = rules["items"] if is_list else rules
    while "$ref" in inner:
        inner = schema.resolve(f"pod.json{inner['$ref']}")
    return inner, is_list
