"""Where the nodes of a task have the folders of volumes."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Annotated

from kubectl_sky.spec.files import WORKDIR
from kubectl_sky.words.documents import Note, Part
from kubectl_sky.words.pod_objects import TaskContainer, TemplateSpec

_LINKS = "KUBECTL_SKY_LINKS"


class PvcMount(Part, frozen=True):
    """A folder of a PVC that the nodes of a task mount."""

    path: Annotated[str, Note("in the nodes")]
    pvc: str
    folder: Annotated[str, Note("of the PVC; empty for all of it")] = ""
    read_only: bool = False


def list_mounts(spec: TemplateSpec, container: TaskContainer) -> Iterator[PvcMount]:
    """Yield the mounts of PVCs; one in the home folder, which is a link, by its path there."""
    claims = {volume.name: volume.claim for volume in spec.volumes or () if volume.claim}
    links = next((it.value or "" for it in container.env or () if it.name == _LINKS), "")
    at_home = {}
    for line in links.splitlines():
        target, _, path = line.partition(" ")
        at_home[target] = f"~/{path}"
    for mount in container.volume_mounts or ():
        if claim := claims.get(mount.name):
            path = at_home.get(mount.mount_path, mount.mount_path)
            yield PvcMount(path, claim, mount.sub_path, mount.read_only)


def locate(mounts: Sequence[PvcMount], path: str) -> tuple[str, str] | None:
    """Return the PVC that holds a path of a node, and the path in it; None if none is known to.

    A relative path starts in the working directory.
    """
    target = PurePosixPath(path)
    if target.parts[:1] != ("~",):
        target = PurePosixPath(WORKDIR, target)
    if ".." in target.parts:
        return None
    holding = [mount for mount in mounts if target.is_relative_to(mount.path)]
    mount = max(holding, key=lambda mount: len(PurePosixPath(mount.path).parts), default=None)
    if mount is None:
        return None
    return mount.pvc, str(PurePosixPath(mount.folder, target.relative_to(mount.path)))
