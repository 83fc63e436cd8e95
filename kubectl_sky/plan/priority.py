"""SkyPilot's priorities: the PriorityClass that the settings name for one, else an annotation."""

from collections.abc import Mapping

from kubectl_sky import names
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Resources


def class_of(resources: Resources, settings: Settings) -> str | None:
    """Return the PriorityClass of the file, else of the settings: of the narrowest range."""
    if resources.priority_class or resources.priority is None:
        return resources.priority_class
    ranges = [(*_range(text), name) for text, name in settings.priority_classes.items()]
    fitting = [found for found in ranges if found[0] <= resources.priority <= found[1]]
    return min(fitting, key=lambda found: found[1] - found[0])[2] if fitting else None


def annotations(resources: Resources) -> Mapping[str, str]:
    """Keep the number where people and programs that order tasks can read it."""
    return {} if resources.priority is None else {names.PRIORITY: str(resources.priority)}


def note(resources: Resources, settings: Settings) -> str:
    """Say that the scheduler is told nothing; empty where it is, or where nobody asked for it."""
    if resources.priority is None or class_of(resources, settings):
        return ""
    return (
        f"priority: {resources.priority} is written as the annotation {names.PRIORITY} only;"
        " priority_classes of the settings names a PriorityClass for it"
    )


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last or first)
