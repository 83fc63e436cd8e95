"""The standard labels of Kubernetes, which other tools show."""

from kubectl_sky import __version__
from kubectl_sky.words import names


def standard_labels(name: str, instance: str) -> dict[str, str]:
    """Return the labels of an object: of which application, and which instance of it."""
    return {
        names.MANAGED_BY: names.MANAGER,
        names.APP_NAME: names.label_value(name),
        names.INSTANCE: names.label_value(instance),
        names.VERSION: __version__,
    }
