"""Name SkyPilot's own settings that would change a task there, and that are not read here."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Document, entries
from kubectl_sky.spec.kubernetes import KUBERNETES
from kubectl_sky.spec.load import MAX_BYTES, load
from kubectl_sky.words import bounded

FILES = ("~/.sky/config.yaml", "./.sky.yaml")
_FIELDS = "config.json#/properties/kubernetes"


def read(environ: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Return the settings of Kubernetes in each file that has some."""
    settings_by_file = {}
    for file in FILES:
        path = file.replace("~", environ.get("HOME", ""), 1)
        with suppress(OSError, InvalidFiles):
            settings = load(bounded.read(path, MAX_BYTES), path)[0].get("kubernetes")
            known = schema.resolve(_FIELDS)["properties"]
            given = dict(entries(settings))
            settings_by_file[file] = [field for field in known if field in given]
    return settings_by_file


def find_unread(
    documents: Sequence[Document], settings: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield a note for each file with settings that a task does not set itself."""
    tasks = [document for document in documents if not (document.is_header or document.is_volume)]
    for file, given in settings.items():
        fields = [
            field for field in given if any(task.get(*KUBERNETES, field) is None for task in tasks)
        ]
        if fields:
            names = " and ".join(fields)
            yield f"{file} is not read; write its {names} below config.kubernetes of the task"
