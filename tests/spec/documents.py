"""Documents for tests: from YAML text, or from data."""

from typing import Any

import yaml

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import load
from kubectl_sky.spec.validate import validate

FILE = "task.yaml"

RUN = "run: echo hi\n"


def read(text: str | bytes) -> tuple[Document, ...]:
    data = text.encode() if isinstance(text, str) else text
    return load(data, FILE)


def make_document(data: Any = None, **fields: Any) -> Document:
    """A document of data, through YAML so that it has places; `run` is there by default."""
    data = {"run": "echo hi", **fields} if data is None else data
    (document,) = read(yaml.safe_dump(data, sort_keys=False))
    return document


def load_problems(text: str | bytes) -> list[str]:
    try:
        read(text)
    except InvalidFiles as error:
        return [str(problem) for problem in error.problems]
    return []


def problems(text: str | bytes, severity: str = "error") -> list[str]:
    """What validate says about all documents of a text."""
    return [str(found) for found in found_in(text) if found.severity == severity]


def found_in(text: str | bytes) -> list[Problem]:
    return [problem for document in read(text) for problem in validate(document)]
