"""Build and check the PVC of a new volume before anything is sent."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.spec import quantity
from kubectl_sky.spec.schema import describe
from kubectl_sky.spec.volumes import Storage
from kubectl_sky.words import names
from kubectl_sky.words.names import standard_labels
from kubectl_sky.words.owners import User

ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


class Pvc(Struct, frozen=True):
    """The values of a PersistentVolumeClaim."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    size: str
    storage_class: str | None
    access_modes: tuple[str, ...]


def new_pvc(
    user: User,
    namespace: str,
    name: str,
    volume_id: str,
    storage: Storage,
    object_name: str | None = None,
) -> Pvc:
    """Build a volume's PVC, by default `NAME-ID`. Raises UserError for an invalid name."""
    if not names.label_value(name):
        raise UserError(f"volume name {describe(name)} has no letter or digit")
    if object_name is None:
        object_name = f"{names.dns_label(name, 'volume')}-{volume_id}"
    elif not names.SUBDOMAIN.fullmatch(object_name):
        hint = "use lowercase letters, digits, - and ."
        raise UserError(f"--pvc-name {describe(object_name)}: invalid name of a PVC", hint)

    return Pvc(
        name=object_name,
        namespace=namespace,
        labels=standard_labels(name, object_name)
        | dict(storage.labels)
        | {
            names.VOLUME: "true",
            names.VOLUME_ID: volume_id,
            names.VOLUME_NAME: names.label_value(name),
            names.USERNAME: user.label,
        },
        annotations={names.ORIGINAL_NAME: name, names.ORIGINAL_USER: user.name},
        size=storage.size,
        storage_class=storage.storage_class,
        access_modes=storage.access_modes,
    )


def storage(size: str, storage_class: str | None, access_modes: Sequence[str]) -> Storage:
    """Check the user's values; kubectl's abbreviations of access modes are accepted.

    Raises UserError for an invalid size or access mode.
    """
    try:
        size = quantity.storage(size)
    except ValueError as error:
        raise UserError(f"size {describe(size)}: {error}") from error

    long_names = {short: mode for mode, short in ACCESS_MODES.items()}
    modes = tuple(dict.fromkeys(long_names.get(mode.upper(), mode) for mode in access_modes))
    unknown = [mode for mode in modes if mode not in ACCESS_MODES]
    if unknown or not modes:
        valid = ", ".join(f"{mode} ({short})" for mode, short in ACCESS_MODES.items())
        raise UserError(
            f"access mode {', '.join(unknown) or '(none)'}: unknown access mode",
            f"choose of {valid}",
        )

    if "ReadWriteOncePod" in modes and len(modes) > 1:
        raise UserError(
            "ReadWriteOncePod cannot be combined with other access modes",
            "request it alone, or only the others",
        )
    return Storage(size, storage_class, modes)
