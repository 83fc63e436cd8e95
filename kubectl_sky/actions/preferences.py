"""Read and check the user's settings file."""

import os
from collections.abc import Mapping
from typing import Any

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.load import MAX_BYTES, load
from kubectl_sky.spec.validate import validate
from kubectl_sky.words import private, settings
from kubectl_sky.words.settings import Settings


def preferences(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read `settings.yaml`; return the defaults if it does not exist.

    Raises InvalidFiles with all problems of the file.
    """
    path = settings.settings_file(environ)
    try:
        text = private.read(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return Settings()
    except private.Unsafe as error:
        hint = (
            f"run: chmod go-w {path}" if error.writable else "remove it, or change its owner to you"
        )
        raise InvalidFiles([Problem(str(path), 0, 0, "", error.reason, hint)]) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidFiles([Problem(str(path), 0, 0, "", f"cannot be read: {reason}")]) from error
    return read(text, str(path))


def read(text: bytes, file: str) -> Settings:
    """Parse the bytes of a settings file. Raises InvalidFiles."""
    documents = load(text, file, example="image: …", optional=True)
    problems = [problem for document in documents for problem in validate(document, "settings")]
    problems += [
        document.problem((), "settings must be a single document") for document in documents[1:]
    ]
    if problems:
        raise InvalidFiles(problems)
    fields = documents[0].data if documents else {}
    return Settings(
        **{name: _with_text_keys(value) for name, value in fields.items() if value is not None}
    )


def _with_text_keys(value: Any) -> Any:  # noqa: ANN401 -- whatever the field is
    """Convert the keys of maps to text: YAML may read a priority as a number."""
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    return value
