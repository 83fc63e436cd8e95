"""`validate`: every problem of every file."""

from collections.abc import Sequence
from typing import BinaryIO

from kubectl_sky.actions import files
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.validate import validate


def check(paths: Sequence[str], stdin: BinaryIO) -> list[Problem]:
    """Return the problems of all files, in order; an unreadable file is a problem too."""
    problems: list[Problem] = []
    for path in paths:
        try:
            for document in files.documents(path, stdin):
                problems += validate(document)
        except InvalidFiles as error:
            problems += error.problems
    return problems
