"""Container images are checked, machine images are replaced, a map of regions is resolved."""

from typing import Any

import pytest

from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.unsupported import refusals
from tests.spec.documents import make_document, problems, read

IMAGE_ID = "run: x\nresources: {image_id: %s}\n"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def image_of(image_id: Any, **resources: Any) -> str | None:
    document = make_document(resources={"image_id": image_id, **resources})
    return task_of(document).resources.image


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "python:3.13-slim",
        "ghcr.io/team/app_1/x__y:v1.2-a_b",
        "localhost:5000/app",
        "Registry.example.com/app",
        "[::1]:5000/app",
        f"ubuntu@{DIGEST}",
        f"ghcr.io/a/b:1@{DIGEST}",
        "skypilot/skypilot:latest",
        "my-ami:1",
    ],
)
@pytest.mark.parametrize("prefix", ["", "docker:", " docker: "])
def test_container_image_is_used_as_written(image: str, prefix: str) -> None:
    assert problems(IMAGE_ID % f"'{prefix}{image}'") == []
    assert problems(IMAGE_ID % f"'{prefix}{image}'", "warning") == []
    assert image_of(prefix + image) == image


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("docker://ubuntu", "an image has no docker:// before it; write ubuntu"),
        ("https://ghcr.io/a/b", "an image has no https:// before it; write ghcr.io/a/b"),
        ("docker:Ubuntu", "an image's name has no capital letters; write ubuntu"),
        (f"Ubuntu@{DIGEST}", f"an image's name has no capital letters; write ubuntu@{DIGEST}"),
        ("a@sha256:abc", "a sha256 digest has 64 hexadecimal digits, got 3"),
        (f"a@{DIGEST.upper()}", "expected a digest such as sha256:…"),
        ("a@sha256:xyz", "a sha256 digest has hexadecimal digits only"),
        ("a@latest", "expected a digest such as sha256:…"),
        ("a@", "expected a digest such as sha256:…"),
        ("$IMAGE", "variables are not substituted in image_id; write the image"),
        ("a b", 'expected an image such as python:3.13-slim, got "a b"'),
        ("ubuntu:", 'expected an image such as python:3.13-slim, got "ubuntu:"'),
        ("/ubuntu", 'expected an image such as python:3.13-slim, got "/ubuntu"'),
        ("docker:", "expected an image such as python:3.13-slim"),
        (" ", "expected an image such as python:3.13-slim"),
        ("a" * 1001, "is longer than an image's name can be"),
    ],
)
def test_image_invalid_reference_is_error_with_position(image: str, message: str) -> None:
    text = IMAGE_ID % f"'{image}'"
    assert problems(text) == [f"task.yaml:2:23: resources.image_id: {message}"]
    assert problems(text, "warning") == []


MACHINE_IMAGES = [
    "ami-0868a20f5a3bf9702",
    "skypilot:gpu-ubuntu-2204",
    "projects/deeplearning-platform-release/global/images/family/common-cu123",
    "https://www.googleapis.com/compute/v1/projects/p/global/images/i",
    "microsoft-dsvm:ubuntu-2004:2004:21.11.04",
    "/CommunityGalleries/gallery/Images/image/Versions/1",
    "ocid1.image.oc1.iad.aaaa",
    "computeimage-u00a1b2c3",
    "r014-e0d49fa3-4b1c-4d7e-8b2c-1f2e3d4c5b6a",
]


@pytest.mark.parametrize("image", MACHINE_IMAGES)
def test_image_machine_image_is_replaced_with_warning(image: str) -> None:
    assert image_of(image) is None
    assert problems(IMAGE_ID % f"'{image}'") == []
    (warning,) = problems(IMAGE_ID % f"'{image}'", "warning")
    assert warning.startswith("task.yaml:2:23: resources.image_id: warning: ")
    assert "is a machine image; the default container image is used" in warning


@pytest.mark.parametrize(
    ("image_id", "infra", "expected"),
    [
        ({"docker": "docker:python:3.11", "us-east-1": "ami-1"}, None, "python:3.11"),
        ({"us-east-1": "docker:app"}, None, "app"),
        ({"us-east-1": "app", "us-west-2": "docker:app"}, None, "app"),
        ({"us-east-1": "a", "us-west-2": "b"}, "aws/us-west-2", "b"),
        ({"us-east-1": "a", "us-west-2": "b"}, "aws/us-west-2/us-west-2a", "b"),
        ({"us-east-1": "a", "us-west-2": "ami-2"}, "aws/us-west-2", None),
        ({"east": "a", "west": "b"}, "k8s/west", "b"),
        ({}, None, None),
    ],
)
def test_image_region_map_chooses_image_of_region(
    image_id: dict[str, str], infra: str | None, expected: str | None
) -> None:
    fields = {"infra": infra} if infra else {}
    assert image_of(image_id, **fields) == expected
    document = make_document(resources={"image_id": image_id, "infra": infra})
    assert refusals(document) == []


def test_image_region_map_is_resolved_per_candidate() -> None:
    text = IMAGE_ID % "{e: a, w: b}, any_of: [{infra: k8s/e}, {infra: k8s/w}]"
    (document,) = read(text)
    assert refusals(document) == []
    assert [item.image for item in task_of(document).candidates] == ["a", "b"]


def test_image_several_machine_images_are_warned_once() -> None:
    (warning,) = problems(IMAGE_ID % "{us-east-1: ami-1, us-west-2: ami-2}", "warning")
    assert warning.startswith("task.yaml:2:35: resources.image_id.us-east-1: warning: ami-1 is")
