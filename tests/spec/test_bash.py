"""What a script needs bash for."""

import pytest

from kubectl_sky.spec.bash import Need, find_need

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
echo \[[ $(( 1 + 2 )) ${x%%[ab]} ${x:-(1)} ] ==
"""


def test_posix_script_has_no_need() -> None:
    assert find_need(PLAIN) is None


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
