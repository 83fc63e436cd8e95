"""The template engine: where templates come from, and what they may do."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import jinja2
from jinja2.bccache import Bucket

from kubectl_sky import __version__, assets
from kubectl_sky.errors import UserError
from kubectl_sky.render import writer


class Kept(Protocol):
    """Bytes by name that outlive the program; none for what is not there any more."""

    def read(self, name: str) -> bytes | None:
        """Return what was written."""

    def write(self, name: str, data: bytes) -> None:
        """Remember bytes."""


class _Compiled(jinja2.BytecodeCache):
    """Templates as they are compiled: that takes longer than all else that render does."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what was compiled before, if the template and Python are as they were then."""
        data = self._kept.read(self._name(bucket))
        if data is not None:
            bucket.bytecode_from_string(data)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Remember it."""
        self._kept.write(self._name(bucket), bucket.bytecode_to_string())

    def _name(self, bucket: Bucket) -> str:
        """Another version may compile otherwise."""
        return f"{bucket.key}-{__version__}"


def engine(overrides: Path | None = None, kept: Kept | None = None) -> jinja2.Environment:
    """Return an environment that reads our templates, a user's own of the same name first.

    What is compiled is `kept`, for this is the same for every task.
    """
    loaders: list[jinja2.BaseLoader] = [jinja2.FunctionLoader(_ours)]
    if overrides is not None:
        if not overrides.is_dir():
            raise UserError(f"--templates {overrides}: no such folder")
        loaders.insert(0, jinja2.FileSystemLoader(overrides))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        bytecode_cache=_Compiled(kept) if kept else None,
        autoescape=True,
        finalize=writer.write,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # they do not change while a task is rendered
    )
    environment.filters.update(block=writer.block, base64=writer.b64, indent=writer.indented)
    return environment


def _ours(name: str) -> tuple[str, str | None, Callable[[], bool]] | None:
    try:
        return assets.read("templates", name), name, lambda: True
    except FileNotFoundError:
        return None
