"""Check that the requested StorageClasses exist."""

from collections.abc import Iterable, Iterator

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, UserError

_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def notes(session: Session, asked: Iterable[str | None]) -> tuple[str, ...]:
    """Return a note for each missing class; None means the default, "" no class.

    Raises UserError if there is no default class: such a PVC would stay pending. Returns nothing
    if the user is not allowed to list StorageClasses.
    """
    requested = {name for name in asked if name != ""}
    if not requested:
        return ()
    try:
        classes = objects.list_all(session, kinds.STORAGE_CLASS)
    except Forbidden:
        return ()
    existing = sorted(storage_class["metadata"]["name"] for storage_class in classes)
    default = any(
        (storage_class["metadata"].get("annotations") or {}).get(key) == "true"
        for storage_class in classes
        for key in _DEFAULT
    )
    if None in requested and not default:
        raise _no_default(existing)
    return tuple(_missing({name for name in requested if name} - set(existing), existing))


def _no_default(known: list[str]) -> UserError:
    if not known:
        return UserError(
            "the cluster has no StorageClass, so nothing would make the volume",
            "install a provisioner, or ask for a claim that is there by its name",
        )
    return UserError(
        "the cluster has no default StorageClass, so nothing would make the volume",
        f"name one: {', '.join(known)} (config.storage_class_name in a file, --storage-class),"
        f" or make one the default: kubectl annotate storageclass {known[0]} {_DEFAULT[0]}=true",
    )


def _missing(names: set[str], known: list[str]) -> Iterator[str]:
    listed = f"there are {', '.join(known)}" if known else "there is none"
    for name in sorted(names):
        yield (
            f"no StorageClass is called {name!r}, {listed}; the volume waits for a PersistentVolume"
            " of that class"
        )
