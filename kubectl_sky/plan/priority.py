"""SkyPilot's priorities: a PriorityClass from the settings, or an annotation."""

from collections.abc import Mapping

from kubectl_sky import names
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Resources


def class_of(resources: Resources, settings: Settings) -> str | None:
    """Return the PriorityClass of the file, or of the settings.

    Among the ranges in the settings that contain the priority, the narrowest wins.
    """
    if resources.priority_class or resources.priority is None:
        return resources.priority_class
    ranges = [(*_range(text), name) for text, name in settings.priority_classes.items()]
    matching = [match for match in ranges if match[0] <= resources.priority <= match[1]]
    return min(matching, key=lambda match: match[1] - match[0])[2] if matching else None


def annotations(resources: Resources) -> Mapping[str, str]:
    """Return the annotation that keeps the number readable for users and tools."""
    return {} if resources.priority is None else {names.PRIORITY: str(resources.priority)}


def note(resources: Resources, settings: Settings) -> str:
    """Return a note if the scheduler ignores the priority; empty otherwise."""
    if resources.priority is None or class_of(resources, settings):
        return ""
    return (
        f"priority: {resources.priority} is written as the annotation {names.PRIORITY} only;"
        " priority_classes of the settings names a PriorityClass for it"
    )


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last or first)
