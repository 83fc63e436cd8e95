"""Batch scripts for tests, valid by default, and the tasks that they become."""

from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.slurm.convert import Call, convert
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import PartlyRead

FILE = "train.sbatch"


def make_script(*options: str, body: str = "python train.py", first: str = "#!/bin/bash") -> str:
    """Return a script with a line of #SBATCH for each option."""
    return "\n".join([first, *(f"#SBATCH {option}" for option in options), "", body, ""])


def read(script: str, *arguments: str, image: bool = False, **table: Any) -> Document:
    return convert(script, FILE, Call(arguments, sets_image=image), table)


def make_document(*options: str, body: str = "python train.py", **table: Any) -> Document:
    return read(make_script(*options, body=body), **table)


def make_data(*options: str, body: str = "python train.py", **table: Any) -> Any:
    """Return the fields of the task of a script with these options."""
    return make_document(*options, body=body, **table).data


def own(document: Document) -> Any:
    """Return what only this program knows of a task."""
    return document.get("config", "kubectl_sky") or {}


def errors(script: str, **table: Any) -> list[Problem]:
    try:
        read(script, **table)
    except PartlyRead as error:
        return list(error.problems)
    return []


def warnings(*options: str, body: str = "python train.py", **table: Any) -> list[str]:
    return [str(problem) for problem in make_document(*options, body=body, **table).warnings]
