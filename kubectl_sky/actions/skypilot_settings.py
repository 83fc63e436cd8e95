"""Name SkyPilot's own settings that would change a task there, and that are not read here."""

from collections.abc import Iterator, Mapping, Sequence

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Document, entries
from kubectl_sky.spec.kubernetes import KUBERNETES
from kubectl_sky.spec.load import MAX_BYTES, load
from kubectl_sky.words import bounded

FILES = ("~/.sky/config.yaml", "./.sky.yaml")
_FIELDS = "config.json#/properties/kubernetes"


def find_unread(documents: Sequence[Document], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each file with settings of Kubernetes that a task does not set itself."""
    tasks = [document for document in documents if not (document.is_header or document.is_volume)]
    for file in FILES:
        path = file.replace("~", environ.get("HOME", ""), 1)
        try:
            settings = load(bounded.read(path, MAX_BYTES), path)[0].get("kubernetes")
        except (OSError, InvalidFiles):
            continue
        fields = [
            field
            for field in schema.resolve(_FIELDS)["properties"]
            if field in dict(entries(settings))
            and any(task.get(*KUBERNETES, field) is None for task in tasks)
        ]
        if fields:
            names = " and ".join(fields)
            yield f"{file} is not read; write its {names} below config.kubernetes of the task"
