"""Read where SkyPilot finds Nebius, and name its settings that are not read here."""

from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser, Error
from contextlib import suppress

from msgspec.structs import replace

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Document, entries
from kubectl_sky.spec.kubernetes import KUBERNETES
from kubectl_sky.spec.load import MAX_BYTES, load
from kubectl_sky.words import bounded
from kubectl_sky.words.settings import Settings

_AWS_CONFIG = "~/.aws/config"
_NEBIUS = "profile nebius"
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


def add_nebius(
    settings: Settings, documents: Sequence[Document], environ: Mapping[str, str]
) -> Settings:
    """Return settings with the endpoint or region of the AWS profile nebius, as in SkyPilot.

    They are for documents with such a bucket, and for settings that have neither.
    """
    store = settings.stores.get("nebius") or {}
    is_named = any("nebius" in str(item.get("file_mounts")).lower() for item in documents)
    if not is_named or store.keys() & {"endpoint", "region"}:
        return settings

    parser = ConfigParser(interpolation=None)
    with suppress(OSError, UnicodeDecodeError, Error):
        path = _AWS_CONFIG.replace("~", environ.get("HOME", ""), 1)
        parser.read_string(bounded.read(path, MAX_BYTES).decode())
    if not parser.has_section(_NEBIUS):
        return settings

    profile = parser[_NEBIUS]
    values = {"endpoint": profile.get("endpoint_url"), "region": profile.get("region")}
    known = {name: value for name, value in values.items() if value}
    return replace(settings, stores={**settings.stores, "nebius": {**known, **store}})


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
