"""What of SkyPilot's language this version does not carry out, and what to do instead."""

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document


def findings(document: Document) -> list[Problem]:
    """Return a warning for each field that is understood and not carried out."""
    return []


def refusals(document: Document) -> list[Problem]:
    """Return an error for each field without which the task would not do what the file says."""
    return []
