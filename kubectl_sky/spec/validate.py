"""Every problem of a document at once."""

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document


def validate(document: Document, schema: str = "task") -> list[Problem]:
    """Return the problems of a document, by place; warnings have the severity "warning"."""
    return []
