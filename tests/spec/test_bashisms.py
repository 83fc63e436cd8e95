"""What a script needs bash for."""

import pytest

from kubectl_sky.spec.bashisms import Need, find_missing, find_need
from kubectl_sky.words import assets
from tests.spec.documents import read

PLAIN = r"""#!/bin/bash
set -eu
if [ "$A" = b ] && test x; then echo 'a [[ b'; fi # [[ in a comment
. ./activate; f() { echo "{1..3} x=(1)"; }
(cd x; (ls)) 2>&1 > y; cat <<'END' | sh
if [[ a == b ]]; then source x; fi
END
python3 - <<-PY
	x = [[1], [2]]; declare = x
	PY
echo \[[ $(( 1 + 2 )) $(((1 + 2) * 3)) ${x%%[ab]} ${x:-(1)} ] ==
"""


def test_posix_script_has_no_need() -> None:
    assert find_need(PLAIN) is None


def test_scripts_of_runtime_have_no_need() -> None:
    for path in assets.folder("runtime").iterdir():
        if path.name.endswith(".sh"):
            assert find_need(path.read_text()) is None, path.name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("a=(1 2)", "an array"),
        ("a+=(1)", "an array"),
        ("echo ${a[0]}", "an array"),
        ("read -r a <<< $b", "<<<"),
        ("diff <(ls a) <(ls b)", "<( )"),
        ("if [[ $a =~ ^x ]]; then b; fi", "=~"),
        ("echo ${a^^}", "${x^^}"),
        ("for i in {1..10}; do a; done", "{1..9}"),
        ("for ((i = 0; i < 3; i++)); do a; done", "(("),
        ("(( a++ ))", "(("),
        ("declare -A a", "declare"),
    ],
)
def test_need_of_bash_only_is_found(code: str, name: str) -> None:
    assert find_need(f"{PLAIN}[[ a == b ]] && x\n{code}\n") == Need(name, 13, True)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("if ! [[ -f x ]]; then a; fi", "[["),
        ('if [ "$SKYPILOT_NODE_RANK" == "0" ]; then a; fi', "=="),
        ("a && source b", "source"),
        ("set -euo pipefail", "pipefail"),
        ("function a { b; }", "function"),
        ("a &> b", "&>"),
        ("IFS=$'\\n'", "$''"),
    ],
)
def test_need_of_busybox_too_is_found(code: str, name: str) -> None:
    assert find_need(PLAIN + code) == Need(name, 12, False)


TASK = "resources: {image_id: %s}\nrun: |\n  true\n  a=(1)\n"


@pytest.mark.parametrize(
    "image",
    ["alpine", "docker:alpine:3.20", f"host:5000/busybox@sha256:{'0' * 64}", "python:3.12-alpine"],
)
def test_script_for_bash_with_image_without_bash_is_warned(image: str) -> None:
    (document,) = read(TASK % image)
    name = image.removeprefix("docker:")
    assert str(find_missing(document)) == (
        f"task.yaml:4:3: run: warning: the image {name} has no bash, and run uses an array;"
        " use an image that has bash"
    )


OTHER_IMAGES = [TASK % image for image in ("python:3.13-slim", "alpinelinux/x:1", "null")]


@pytest.mark.parametrize("text", [*OTHER_IMAGES, "resources: {image_id: alpine}\nrun: echo"])
def test_other_image_or_posix_script_is_not_warned(text: str) -> None:
    (document,) = read(text)
    assert find_missing(document) is None


def test_need_that_busybox_knows_is_said_so() -> None:
    (document,) = read("resources: {image_id: alpine}\nsetup: source x\nrun: echo")
    assert "setup uses source, which the sh of busybox knows" in str(find_missing(document))
