"""Where the nodes of a task have the folders of volumes and buckets."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Struct

from kubectl_sky.spec.files import WORKDIR
from kubectl_sky.words.documents import Note, Part
from kubectl_sky.words.expansion import unescape
from kubectl_sky.words.pod_objects import PodTemplate, TaskContainer, Volume, VolumeMount

_BUCKET = re.compile(r"bucket-\d+")
_LINKS = "KUBECTL_SKY_LINKS"
_COPY_PROGRAMS = {"s3": "aws s3 cp", "gs": "gcloud storage cp"}
_SOURCE = "KUBECTL_SKY_SOURCE"


class PvcMount(Part, frozen=True):
    """A folder of a PVC that the nodes of a task mount."""

    path: Annotated[str, Note("in the nodes")]
    pvc: str
    folder: Annotated[str, Note("of the PVC; empty for all of it")] = ""
    read_only: bool = False

    @property
    def title(self) -> str:
        return self.path


class BucketMount(Struct, frozen=True):
    """A bucket that the nodes of a task have at a path.

    An init container, the `copier`, downloads it; without one, the CSI driver of the `volume`
    mounts its `folder`.
    """

    path: str
    template: PodTemplate
    volume: Volume
    copier: TaskContainer | None = None
    folder: str = ""
    is_mounted_read_only: bool = False

    @property
    def read_only(self) -> bool:
        """Whether nothing that nodes write there reaches the bucket."""
        if self.copier:
            return "KUBECTL_SKY_SYNC" not in self.variables
        return self.is_mounted_read_only

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of the copier that are not secret."""
        variables = self.copier.env if self.copier else ()
        return {item.name: unescape(item.value) for item in variables or () if item.value}

    @property
    def url(self) -> str:
        """Its URL, without a query, which may be a signature; empty for that of a CSI driver."""
        return self.variables.get(_SOURCE, "").partition("?")[0]

    @property
    def title(self) -> str:
        return self.url or self.path

    def url_of(self, path: str) -> str:
        """Return the URL of a path in it, `.` for all of it."""
        return self.url if path == "." else f"{self.url}/{path}"

    def copy_hint(self, path: str) -> str:
        """Return how to copy a path of it without a pod, with a program of its store."""
        url = self.url_of(path)
        scheme = url.partition(":")[0]
        program = _COPY_PROGRAMS.get(scheme)
        if not program:
            return f"read {shlex.quote(url)} with a program of its store, such as rclone"
        endpoint = self.variables.get("RCLONE_CONFIG_SRC_ENDPOINT")
        flags = ["--endpoint-url", endpoint] if endpoint and scheme == "s3" else []
        if path == ".":
            flags.append("--recursive")
        command = f"`{program} {shlex.join([url, '.', *flags])}`"
        folder = "" if path == "." else f"; a folder: `{program} --recursive …`"
        return f"to read it here: {command}{folder}"


Mount = PvcMount | BucketMount


def list_mounts(template: PodTemplate, container: TaskContainer) -> Iterator[Mount]:
    """Yield the mounts of PVCs and buckets; one in the home folder, a link, by its path there."""
    volumes = {volume.name: volume for volume in template.spec.volumes or ()}
    links = next((it.value or "" for it in container.env or () if it.name == _LINKS), "")
    at_home = {}
    for line in links.splitlines():
        target, _, path = line.partition(" ")
        at_home[target] = f"~/{path}"

    for mount in container.volume_mounts or ():
        path = at_home.get(mount.mount_path, mount.mount_path)
        volume = volumes.get(mount.name)
        if volume and volume.claim:
            yield PvcMount(path, volume.claim, mount.sub_path, mount.read_only)
        elif volume and _BUCKET.fullmatch(volume.name):
            yield from _bucket(template, volume, mount, path)


def _bucket(
    template: PodTemplate, volume: Volume, mount: VolumeMount, path: str
) -> Iterator[BucketMount]:
    """Yield the mount if it is that of a bucket."""
    if volume.csi:
        read_only = mount.read_only or bool(volume.csi.get("readOnly"))
        yield BucketMount(path, template, volume, None, mount.sub_path, read_only)
        return

    copiers = (item for item in template.spec.init_containers or () if item.name == volume.name)
    bucket = BucketMount(path, template, volume, next(copiers, None))
    if bucket.url and mount.sub_path == "data":
        yield bucket


def locate(mounts: Sequence[Mount], path: str) -> tuple[Mount, str] | None:
    """Return the mount that holds a path of a node, and the path in it; None if none is known to.

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
    return mount, str(PurePosixPath(mount.folder, target.relative_to(mount.path)))
