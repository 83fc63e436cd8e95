"""The image of a task: a container image, or one of a provider's machines.

`image_id` is an image or a map of regions to images. SkyPilot's key `docker` names the container
image of all regions.
"""

import re
from collections.abc import Iterator, Mapping

from kubectl_sky.errors import Problem
from kubectl_sky.spec import infra
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.schema import describe

_PREFIX = "docker:"  # SkyPilot's, for container images
_MACHINE = re.compile(
    r"ami-[0-9a-z]+"  # AWS
    r"|skypilot:.*"  # SkyPilot's tags of machine images
    r"|(.*/)?projects/.+/(global/)?(images|machineImages)/.+"  # GCP
    r"|/communitygalleries/.+|([\w.-]+:){3}[\w.-]+"  # Azure: a gallery, PUBLISHER:OFFER:SKU:VERSION
    r"|ocid1\.image\..+"  # OCI
    r"|computeimage-[0-9a-z]+"  # Nebius
    r"|r[0-9]{3}-[0-9a-f]{8}-[0-9a-f-]{27}",  # IBM
    re.IGNORECASE,
)

# An OCI reference, as container runtimes parse it: [HOST[:PORT]/]NAME[:TAG][@DIGEST].
_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?", re.ASCII)
_DIGITS = {"sha256": 64, "sha512": 128}
_MAX_LENGTH = 1000
_PAGE = re.compile(r"hub\.docker\.com/(?:r|_|repository/docker)/([^?#]+?)/?(?:tags.*)?")
_FILE = re.compile(r"(^|/)Dockerfile|^\.{1,2}/|\.(tar|tar\.gz|tgz|sif|sqsh)$")
_PUSHED = "build and push it, then write its name, such as ghcr.io/me/train:1"
_EXPECTED = "expected an image such as python:3.13-slim"


def container(text: str) -> str | None:
    """Return the container image that a text names; None for a machine image."""
    bare = text.strip()
    if len(bare) > _MAX_LENGTH:  # no name, which is said elsewhere; searching it takes minutes
        return bare
    if not bare.startswith(_PREFIX) and _MACHINE.fullmatch(bare):
        return None
    return bare if bare.startswith(f"{_PREFIX}//") else bare.removeprefix(_PREFIX).strip() or None


def choose(resources: Mapping[str, Data]) -> tuple[str | None, str] | None:
    """Return the image of complete resources, with its key if `image_id` is a map.

    Of a map, it is the container image of all regions, that of the region in `infra`, or the only
    one.
    """
    image_id = resources.get("image_id")
    if isinstance(image_id, str):
        return None, image_id
    images = {key: text for key, text in entries(image_id) if isinstance(text, str)}
    for key in ("docker", infra.region(resources)):
        if key in images:
            return key, images[key]
    is_unique = len(set(map(container, images.values()))) == 1
    return next(iter(images.items())) if is_unique else None


def of(resources: Mapping[str, Data]) -> str | None:
    image = choose(resources)
    return container(image[1]) if image else None


def images(document: Document) -> set[str]:
    """Return the valid container images of all candidates, without the default image."""
    named = {name for _, resources in _complete(document) if (name := of(resources))}
    return {name for name in named if not wrong_reference(name)[0]}


def is_default(document: Document) -> bool:
    """Report whether a candidate of the task leaves the image to the settings."""
    return any(of(resources) is None for _, resources in _complete(document))


def list_unchosen(document: Document) -> Iterator[Path]:
    """Yield the maps of several images of which no region of the task chooses one."""
    for path, resources in _complete(document):
        if resources.get("image_id") and not choose(resources):
            yield _find_written(document, path)


def _complete(document: Document) -> Iterator[tuple[Path, Mapping[str, Data]]]:
    """Yield the complete resources of each candidate; of the task if it has none."""
    ignored = set(infra.find_left_out(document))
    paths = [path for path in document.resources.paths[1:] if path not in ignored]
    for path in paths or [("resources",)]:
        yield path, infra.candidate_fields(document, path)


def _find_written(document: Document, path: Path) -> Path:
    """Return the path of the image_id of a candidate: its own or the one around it."""
    path = path if document.get(*path, "image_id") is not None else ("resources",)
    return (*path, "image_id")


def _references(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        image_id = values.get("image_id")
        texts = [((*path, "image_id", key), text) for key, text in entries(image_id)]
        for image_path, text in texts or [((*path, "image_id"), image_id)]:
            image = container(text) if isinstance(text, str) and text else None
            if image is None and (not text or str(text).strip() not in ("", _PREFIX)):
                continue
            message, hint = wrong_reference(image or "")
            if message:
                yield document.problem(image_path, message, hint)


def wrong_reference(image: str) -> tuple[str, str]:
    """Return the error and the hint for an OCI reference; empty if it is valid."""
    name, _, digest = image.partition("@")
    scheme, separator, rest = image.partition("://")
    lower = f"{name.lower()}{image[len(name) :]}"

    if separator:
        page = _PAGE.fullmatch(rest.lower())
        bare = page[1] if page else rest.lower()
        hint = f"write {printable(bare, 200)}"
        return f"an image has no {printable(scheme)}:// before it", hint
    if _FILE.search(image) and not _REFERENCE.fullmatch(name):
        return "this is a file, and images are pulled from a registry", _PUSHED
    if "$" in image:
        return "variables are not substituted in image_id", "write the image"
    if len(image) > _MAX_LENGTH:
        return "is longer than an image's name can be", ""

    if not _REFERENCE.fullmatch(name):
        if _REFERENCE.fullmatch(name.lower()):
            return "an image's name has no capital letters", f"write {lower}"
        got = f", got {describe(image)}" if image else ""
        return f"{_EXPECTED}{got}", ""

    message = _wrong_digest(digest) if "@" in image else ""
    return message, ""


def _wrong_digest(digest: str) -> str:
    algorithm, _, digits = digest.partition(":")
    length = _DIGITS.get(algorithm)
    if length is None:
        return "expected a digest such as sha256:…"
    if not re.fullmatch("[0-9a-f]*", digits):
        return f"a {algorithm} digest has hexadecimal digits only"
    if len(digits) != length:
        return f"a {algorithm} digest has {length} hexadecimal digits, got {len(digits)}"
    return ""


def _machines(document: Document) -> Iterator[Problem]:
    for path, resources in _complete(document):
        image = choose(resources)
        if image and image[1].strip() not in ("", _PREFIX) and container(image[1]) is None:
            key, text = image
            image_path = _find_written(document, path) + (() if key is None else (key,))
            message = f"{printable(text)} is a machine image; the default container image is used"
            hint = "name a container image such as python:3.13-slim"
            yield document.problem(image_path, message, hint, "warning")


def _two(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        images = dict(entries(values.get("image_id")))
        for key, text in images.items() if "docker" in images else ():
            if key != "docker" and isinstance(text, str) and text.startswith(_PREFIX):
                message = "is an image in addition to docker's"
                hint = "keep one of them"
                yield document.problem((*path, "image_id", key), message, hint)


RULES = ((frozenset({"image_id"}), (_references, _two, _machines)),)
