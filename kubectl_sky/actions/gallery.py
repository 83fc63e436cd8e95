"""`init --example`: copy a file of the gallery with the programs that it uploads."""

import re
from collections.abc import Mapping
from pathlib import Path

from kubectl_sky.errors import UserError, did_you_mean
from kubectl_sky.words import assets, bounded

_NUMBER = re.compile(r"^\d\d-")  # of the file names, which have an order
_COMMAND = re.compile(r"# +(?:kubectl sky|export) ")
_SENTENCE = re.compile(r"[.:](?: |$)")
_USED = re.compile(
    r"\bexamples/([\w-]+(?:[./][\w-]+)*)"
)  # in a task file, which runs in a checkout


def list_examples() -> Mapping[str, tuple[Path, str]]:
    """Return the files of the gallery by name, each with the first sentence of its comments."""
    examples = {}
    for path in sorted(assets.folder("examples").glob("[0-9]*.yaml")):
        comments = path.read_text(encoding="utf-8").partition("\nname:")[0].splitlines()
        words = [
            line[2:] for line in comments if line.startswith("# ") and not _COMMAND.match(line)
        ]
        examples[_NUMBER.sub("", path.stem)] = path, _SENTENCE.split(" ".join(words))[0]
    return examples


def find(name: str) -> Path:
    """Return the file of an example. Raises UserError if none or several match."""
    examples = list_examples()
    matches = [name] if name in examples else [item for item in examples if name in item]
    if len(matches) != 1:
        what = "several examples match" if matches else "there is no example"
        listed = did_you_mean(name, examples) + "`kubectl sky init --list` shows them"
        hint = f"use one of {', '.join(matches)}" if matches else listed
        raise UserError(f'{what} "{name}"', hint)
    return examples[matches[0]][0]


def copy(example: Path, force: bool) -> list[Path]:
    """Write an example and its programs into the current folder, and return their paths.

    Raises UserError, before anything is written, if one exists.
    """
    folder = example.parent
    name = _NUMBER.sub("", example.name)
    text = example.read_text(encoding="utf-8")
    files = {Path(name): _USED.sub(r"\1", text.replace(example.name, name)).encode()}

    for used in {folder / path for path in _USED.findall(text)} - {example}:
        for path in sorted(used.rglob("*") if used.is_dir() else [used]):
            if path.is_file() and "__pycache__" not in path.parts:
                files[path.relative_to(folder)] = path.read_bytes()

    existing = [str(path) for path in files if path.exists()]
    if existing and not force:
        raise UserError(f"{existing[0]} already exists", "to overwrite it, use --force")

    for path, content in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {bounded.reason(error)}") from None
    return list(files)
