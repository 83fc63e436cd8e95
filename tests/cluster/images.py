"""Container images for the tests, made of Debian's packages: no registry is asked.

They carry the names of the real ones, and as much of them as the tests use: `sh`, `python3`, `tar`.
"""

import hashlib
import io
import json
import platform
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import wheel
from tests.cluster import cache, debian, packages, programs
from tests.cluster.place import FOLDER
from tests.cluster.shell import find, run
from tests.cluster.target import ADMIN, Cluster, selected

SUITE = "trixie"
INCLUDE = "bash,ca-certificates,gzip,procps,python3,tar"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PAUSE = "registry.k8s.io/pause:3.10"
STANDINS = Path(__file__).parent / "standins"
_ROOT = Path(__file__).parents[2]
_EMPTY = ("dev", "proc", "sys")
_USELESS = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache", "var/lib/apt/lists")
_OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class Image:
    """A name, and the command that runs when a pod gives none."""

    name: str
    command: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...] = ()  # of its config, beside command and PATH


PYTHON = (
    Image("docker.io/library/python:3.13-slim", ("python3",)),
    Image("docker.io/library/python:3.11", ("python3",)),
    Image("nvcr.io/nvidia/pytorch:23.10-py3", ("python3",)),
)
BUSYBOX = (
    Image("docker.io/library/busybox:1.36", ("sh",)),
    Image(PAUSE, ("/bin/sleep", "2147483647")),
)
RCLONE = (Image("docker.io/rclone/rclone:1.68.2", ("rclone",)),)
MPI = (Image("docker.io/mpioperator/openmpi:v0.8.0", ("bash",)),)
JAX = Image("docker.io/library/jax:0.8.1", ("python3",))
_JAX = ("jax==0.8.1", "jaxlib==0.8.1")
PYTORCH = Image("docker.io/pytorch/pytorch:2.6.0", ("python3",))
_HUGGING_FACE = ("transformers==4.57.1", "awscli==1.42.62", "psutil==7.1.3")
_ACCELERATE = "accelerate==1.11.0"  # without what it needs: PyTorch is Debian's, for CPUs
# Debian builds PyTorch without libuv, and some of its programs do not ask for that.
_WITHOUT_LIBUV = {
    "elastic/rendezvous/static_tcp_rendezvous.py": "multi_tenant=True,",
    "rendezvous.py": "is_master=False,",
}
RAY = Image("docker.io/rayproject/ray:2.60.0", ("bash",))
_MPI = ("openmpi-bin", "openssh-client", "openssh-server")


def archives() -> tuple[Path, ...]:
    """Return the OCI archives of all images, from the cache or made now."""
    copier = programs.path("rclone")
    sources = (Path(__file__), Path(debian.__file__), *_standins())
    key = cache.digest(SUITE, INCLUDE, *sources, copier.parent.name)

    def make(folder: Path) -> None:
        packages.require("debootstrap", "busybox")
        cache.say("making the images with debootstrap: this takes a minute, once")
        root = folder / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, str(root)]
        run(command, environment={"LC_ALL": "C"})
        _without_useless(root)

        (root / "usr/bin/python").symlink_to("python3")
        _stand_in(root)
        _archive(folder / "python.tar", PYTHON, root)

        _mpi(root, folder / "mpi")
        _archive(folder / "mpi.tar", MPI, root, folder / "mpi")
        shutil.rmtree(folder / "mpi")
        shutil.rmtree(root)

        _busybox(root)
        _archive(folder / "busybox.tar", BUSYBOX, root)

        shutil.copy(copier, root / "usr/bin/rclone")
        _archive(folder / "rclone.tar", RCLONE, root)
        shutil.rmtree(root)

    folder = cache.keep("images", key, make)
    return tuple(folder / f"{name}.tar" for name in ("busybox", "rclone", "python", "mpi"))


def ours(folder: Path, names: Iterable[str]) -> Path:
    """Make the image of the Containerfile over Debian's root: no builder of images is needed."""
    core = wheel.build("wheel", folder / "core")
    server = wheel.build("wheel", folder / "server", _ROOT / "packages/server")
    _unpacked(next(path for path in archives() if path.stem == "python"), folder / "root")

    environment = folder / "ours" / "opt/kubectl-sky"
    program = environment / "bin/kubectl-sky"
    program.parent.mkdir(parents=True)
    (program.parent / "python").symlink_to("/usr/bin/python3")
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    program.write_text(
        "#!/opt/kubectl-sky/bin/python\nfrom kubectl_sky.__main__ import run\nrun()\n"
    )
    program.chmod(0o755)

    target = environment / "lib/python3.13/site-packages"
    _pip(target, "--require-hashes", "--requirement", _ROOT / ".ci/lock/image.txt")
    _pip(target, "--no-deps", core, server)

    text = (_ROOT / "packages/server/Containerfile").read_text()
    entry = json.loads(re.findall(r"^ENTRYPOINT (.*)", text, re.M)[-1])
    user = re.findall(r"^USER (.*)", text, re.M)[-1]
    variables = re.findall(r"^ENV (.*)", text, re.M)[-1].split()
    settings = (("Entrypoint", entry), ("User", user), ("Env", variables))

    archive = folder / "ours.tar"
    tagged = tuple(Image(name, (), settings) for name in names)
    _archive(archive, tagged, folder / "root", folder / "ours")
    return archive


def make_jax() -> Path:
    """Return the archive of an image with JAX for CPUs, from the cache or made now."""
    python = next(path for path in archives() if path.stem == "python")

    def make(folder: Path) -> None:
        cache.say("making the image of JAX, once")
        root = folder / "root"
        _unpacked(python, root)
        added = folder / "jax"
        _pip(added / "usr/lib/python3/dist-packages", *_JAX)
        _archive(folder / "jax.tar", (JAX,), root, added)
        shutil.rmtree(root)
        shutil.rmtree(added)

    return cache.keep("jax", cache.digest(*_JAX, python.parent.name), make) / "jax.tar"


def make_pytorch() -> Path:
    """Return the archive of an image with PyTorch, transformers and Accelerate for CPUs."""
    python = next(path for path in archives() if path.stem == "python")
    key = cache.digest(*_HUGGING_FACE, _ACCELERATE, python.parent.name, Path(__file__))

    def make(folder: Path) -> None:
        cache.say("making the image of PyTorch, once")
        root = folder / "root"
        added = folder / "pytorch"
        _unpacked(python, root)
        debian.unpack(root, added, ("python3-torch",), without=())
        _without_useless(added)
        for name in ("blas", "lapack"):  # links of alternatives
            (library,) = added.glob(f"usr/lib/*/{name}/lib{name}.so.3")
            (library.parents[1] / library.name).symlink_to(f"{name}/{library.name}")

        modules = added / "usr/lib/python3/dist-packages"
        for name, argument in _WITHOUT_LIBUV.items():
            path = modules / "torch/distributed" / name
            text = path.read_text()
            assert argument in text, path
            path.write_text(text.replace(argument, f"{argument} use_libuv=False,"))

        _pip(modules, *_HUGGING_FACE)
        _pip(modules, "--no-deps", _ACCELERATE)
        for name in ("accelerate", "aws"):  # pip's begin with a Python of this machine
            _, _, text = (modules / "bin" / name).read_text().partition("\n")
            program = added / "usr/bin" / name
            program.write_text(f"#!/usr/bin/python3\n{text}")
            program.chmod(0o755)
        shutil.rmtree(modules / "bin")

        _archive(folder / "pytorch.tar", (PYTORCH,), root, added)
        shutil.rmtree(root)
        shutil.rmtree(added)

    return cache.keep("pytorch", key, make) / "pytorch.tar"


def load(cluster: Cluster, archive: Path) -> None:
    """Import the images of an archive into a cluster that was built here."""
    entry, _ = selected(yaml.safe_load(cluster.kubeconfig.read_text()), ADMIN)
    built = [path for path in FOLDER.glob("*/kubeconfig") if entry["server"] in path.read_text()]
    if not built:
        pytest.skip("only a cluster that was built on this machine imports images from a file")
    folder = built[0].parent
    for socket in (*folder.glob("containerd.sock"), *folder.glob("*/containerd.sock")):
        bring(socket, [archive])


def bring(socket: Path, archives: Iterable[Path]) -> None:
    """Import the images of archives into a container runtime."""
    for archive in archives:
        run(["ctr", "--address", socket, "-n", "k8s.io", "images", "import", archive])


def _pip(target: Path, *arguments: str | Path) -> None:
    """Install packages for the Python of the images into a folder."""
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(target)]
    run([*uv, "--python-version", "3.13", "--only-binary", ":all:", *arguments])


def _unpacked(archive: Path, root: Path) -> None:
    """Unpack the only layer of an archive."""
    with tarfile.open(archive) as tar:

        def blob(digest: str) -> Any:
            return json.load(tar.extractfile(_blob(digest)) or io.BytesIO())

        index = json.load(tar.extractfile("index.json") or io.BytesIO())
        (layer,) = blob(index["manifests"][0]["digest"])["layers"]
        with tarfile.open(fileobj=tar.extractfile(_blob(layer["digest"]))) as files:
            files.extraction_filter = lambda member, _path: member  # 3.14 refuses absolute links
            files.extractall(root)


def _without_useless(root: Path) -> None:
    for useless in _USELESS:
        shutil.rmtree(root / useless, ignore_errors=True)


def _mpi(root: Path, folder: Path) -> None:
    """Lay out what an image with mpirun and sshd has beyond a root."""
    debian.unpack(root, folder, _MPI)
    _without_useless(folder)
    for name in ("mpirun", "mpiexec"):
        (folder / "usr/bin" / name).symlink_to(f"{name}.openmpi")
    users = (root / "etc/passwd").read_text()
    (folder / "etc/passwd").write_text(f"{users}sshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n")


def _standins() -> list[Path]:
    return sorted(path for path in STANDINS.rglob("*") if path.is_file())


def _stand_in(root: Path) -> None:
    """Add what the seed's examples start: `pip`, `torch` and two scripts of a user's."""
    for path in _standins():
        name = path.relative_to(STANDINS)
        library = len(name.parts) > 1
        target = root / ("usr/lib/python3/dist-packages" if library else "") / name
        if name.name == "pip":
            target = root / "usr/local/bin/pip"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        target.chmod(0o755)


def _busybox(root: Path) -> None:
    """Lay out a root of busybox alone: each applet is a link to it."""
    program = find("busybox") or ""
    for name in ("bin", "etc", "root", "tmp", "usr/bin", "var"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin/busybox")
    for applet in run([program, "--list"]).split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")


def _archive(archive: Path, images: tuple[Image, ...], *roots: Path) -> None:
    """Write folders, one over the other, as an OCI archive that holds them under several names."""
    layers = [_layer(root, archive.with_suffix(f".{number}")) for number, root in enumerate(roots)]
    with tarfile.open(archive, "w") as tar:
        manifests = [_image(tar, image, [layer for _, layer in layers]) for image in images]
        _add(tar, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _add(tar, "index.json", {"schemaVersion": 2, "manifests": manifests})
        for path, described in layers:
            tar.add(path, arcname=_blob(described["digest"]))
            path.unlink()


def _layer(root: Path, layer: Path) -> tuple[Path, dict[str, Any]]:
    """Write a folder as a layer, and return it with what a manifest says of it."""
    with tarfile.open(layer, "w") as tar:
        for entry in sorted(root.iterdir()):
            if entry.name in _EMPTY:
                tar.addfile(_folder(entry.name))
            else:
                tar.add(entry, arcname=entry.name)
    with layer.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    size = layer.stat().st_size
    return layer, {"mediaType": f"{_OCI}.layer.v1.tar", "digest": digest, "size": size}


def _image(tar: tarfile.TarFile, image: Image, layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Add an image's config and manifest; return the index's entry for it."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64")
    settings = {"Env": [PATH], "Cmd": list(image.command), **dict(image.settings)}
    files = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
    config = {"architecture": architecture, "os": "linux", "config": settings, "rootfs": files}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _add_blob(tar, config, "config"),
        "layers": layers,
    }
    described = _add_blob(tar, manifest, "manifest")
    return {**described, "annotations": {"io.containerd.image.name": image.name}}


def _add_blob(tar: tarfile.TarFile, document: dict[str, Any], kind: str) -> dict[str, Any]:
    data = json.dumps(document).encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if _blob(digest) not in tar.getnames():
        _add(tar, _blob(digest), document)
    return {"mediaType": f"{_OCI}.{kind}.v1+json", "digest": digest, "size": len(data)}


def _add(tar: tarfile.TarFile, name: str, document: dict[str, Any]) -> None:
    data = json.dumps(document).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _folder(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o755
    return entry
