"""Whether the cluster makes volumes of the classes that are asked for."""

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
    """Say which classes there are not; None asks for the default, "" for no class.

    Raises UserError where there is no default: such a claim would wait forever. Who may not list
    StorageClasses is told nothing.
    """
    wanted = {name for name in asked if name != ""}
    if not wanted:
        return ()
    try:
        classes = objects.list_all(session, kinds.STORAGE_CLASS)
    except Forbidden:
        return ()
    known = sorted(one["metadata"]["name"] for one in classes)
    default = any(
        (one["metadata"].get("annotations") or {}).get(key) == "true"
        for one in classes
        for key in _DEFAULT
    )
    if None in wanted and not default:
        raise _no_default(known)
    return tuple(_missing({name for name in wanted if name} - set(known), known))


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
    there = f"there are {', '.join(known)}" if known else "there is none"
    for name in sorted(names):
        yield (
            f"no StorageClass is called {name!r}, {there}; the volume waits for a PersistentVolume"
            " of that class"
        )
