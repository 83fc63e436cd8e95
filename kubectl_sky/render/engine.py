"""The template engine: where templates are loaded from, and what they may do."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import jinja2

from kubectl_sky import assets
from kubectl_sky.errors import UserError
from kubectl_sky.render import writer


@cache
def engine(overrides: Path | None = None) -> jinja2.Environment:
    """Return the environment that loads the built-in templates.

    A template in the folder `overrides` replaces the built-in template of the same name. Raises
    UserError if that folder does not exist. Templates are compiled once per process, which takes
    30 ms. Compiled templates are code, so they are not written to disk.
    """
    loaders: list[jinja2.BaseLoader] = [jinja2.FunctionLoader(_ours)]
    if overrides is not None:
        if not overrides.is_dir():
            raise UserError(f"--templates {overrides}: no such folder")
        loaders.insert(0, jinja2.FileSystemLoader(overrides))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        finalize=writer.write,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # templates do not change while a task is rendered
    )
    environment.filters.update(
        block=writer.block, base64=writer.b64, fields=writer.fields, nest=writer.nest
    )
    return environment


def _ours(name: str) -> tuple[str, str | None, Callable[[], bool]] | None:
    try:
        return assets.read("templates", name), name, lambda: True
    except FileNotFoundError:
        return None
