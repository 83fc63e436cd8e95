"""Warnings about commands whose failure goes unnoticed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec import scripts


def unnoticed(script: str, field: str = "run") -> tuple[str, str] | None:
    """Return the rest of the line from the command that is reported, and its hint."""
    finding = scripts.find_unnoticed(field, script)
    return (script[finding[0] :].partition("\n")[0], finding[2]) if finding else None


ERREXIT = "start the script with `set -e`"
PIPEFAIL = "start the script with `set -eo pipefail`"
WAIT = "add `wait $!` at the end"

UNNOTICED = [
    ("python train.py\necho done", "python train.py", ERREXIT),
    ("cd x\npython3.12 -u train.py \\\n  --a b\nls out/", "python3.12 -u train.py \\", ERREXIT),
    ("CUDA_VISIBLE_DEVICES=0 nohup torchrun a.py > log 2>&1; cat log", "CUDA", ERREXIT),
    ("timeout 5m uv run python a.py; echo", "timeout", ERREXIT),
    ("/opt/openmpi/bin/mpirun a\nsleep infinity", "/opt/openmpi/bin/mpirun a", ERREXIT),
    ("python a.py\naws s3 sync out s3://b", "python a.py", ERREXIT),
    ("aws s3 sync out s3://b\necho done", "aws s3 sync out s3://b", ERREXIT),
    ("for i in 1 2; do python a.py $i; echo $i; done", "python a.py $i; echo $i; done", ERREXIT),
    ("if [ $R == 0 ]; then\n  python a.py\n  date\nelse\n  date\nfi", "python a.py", ERREXIT),
    ("case $R in\n  0) python a.py; date ;;\n  *) date\nesac", "python a.py; date ;;", ERREXIT),
    ("python - <<EOF\nprint('\nEOF\necho done", "python - <<EOF", ERREXIT),
    ('echo "$(date "+%s")" \'#\'\npython a.py # work; "\nwait', "python a.py #", ERREXIT),
    ("while sleep 9; do date; done &\npython a.py\nkill $!", "python a.py", ERREXIT),
    ("vllm serve m & pid=$!\npython b.py\nkill $pid", "python b.py", ERREXIT),
    ("python a.py && echo yes\necho done", "python a.py && echo yes", ERREXIT),
    ("vllm serve m | tee log", "vllm serve m | tee log", PIPEFAIL),
    ("set -e\naws s3 ls s3://b | awk '{ print }' > all\npython a.py", "aws", PIPEFAIL),
    ("if true; then python a.py 2>&1 | tee log; fi", "python a.py 2>&1", PIPEFAIL),
    ("python a.py | while read -r x; do echo $x; done", "python a.py", PIPEFAIL),
    ("nohup python a.py > log 2>&1 &", "nohup python", WAIT),
    ("python a.py &\npython b.py &\nwait", "python a.py &", WAIT),
    ("vllm serve m &\nsleep infinity", "vllm serve m &", WAIT),
]


@pytest.mark.parametrize(("script", "start", "hint"), UNNOTICED)
def test_scripts_unnoticed_failure_is_reported_at_its_command(
    script: str, start: str, hint: str
) -> None:
    found = unnoticed(script)
    assert found and (found[0].startswith(start), found[1]) == (True, hint)


NOTICED = [
    "python train.py",
    "pip install x\npython train.py",
    "echo start\nexec python train.py",
    "set -e\npython train.py\necho done",
    "set -euo pipefail\npython train.py | tee log\necho done",
    "set -o errexit -o pipefail\npython train.py | tee log",
    "set -eo pipefail\naws s3 ls s3://b | awk 1 > all || true\npython a.py",
    "python train.py || exit 1\necho done",
    "python train.py && echo done",
    "python a.py | tee log || exit 1",
    "python a.py | tee log; exit ${PIPESTATUS[0]}",
    "python train.py\ncode=$?\naws s3 sync out s3://b\nexit $code",
    "trap 'exit 1' ERR\npython train.py\necho",
    "if python train.py; then echo yes; else echo no; fi",
    "if ! python train.py; then exit 1; fi\necho done",
    "! python train.py\necho done",
    "until python train.py; do sleep 9; done\necho done",
    "while true; do python worker.py; sleep 9; done",
    "python prepare.py\npython train.py",
    "python prepare.py\n./train.sh",
    "aws s3 cp s3://b/data .\npython train.py",
    "if [ $R = 0 ]; then\n  python a.py\nelse\n  echo worker\nfi",
    "case $R in 0) python a.py ;; (1|2) python b.py;; *) echo\nesac",
    "python -m http.server &\npython client.py",
    "python -m http.server &\nsleep 60\nkill $!",
    "python a.py &\nwait $!",
    "python -c 'import torch'\necho",
    "python3 -m venv x\nsource x/bin/activate\necho",
    "python --version\necho; hf auth login --token $T\necho",
    "cat > run.sh <<'EOF'\npython a.py\necho done\nEOF\nbash run.sh",
    "# python a.py\necho done",
    "echo 'python a.py\n' \"python a.py; x\"\necho",
    "x=$(python a.py | tail -1)\necho $x",
    "x=(python a.py); [[ $x =~ ^(a|b)$ && -n $y ]]; for ((i=0; i<9; i++)); do echo $i; done",
    "check() {\n  python a.py\n  echo done\n}\ncheck\npython b.py",
    "function check {\n  python a.py\n  echo\n}\necho",
    "echo x | python a.py",
    "echo a > python\necho",
    "diff <(python a.py | sort) b; echo",
    "yes | python a.py",
    "python a.py | python b.py",
    "( cd x; python a.py )",
    "echo if; echo for; echo done",
]


NOT_UNDERSTOOD = ["if true; then python a.py; echo", "python a.py\necho <<EOF", "(" * 60]
NOT_UNDERSTOOD += ["python a.py\necho\n" + "#" * 70_000, ""]


@pytest.mark.parametrize("script", [*NOTICED, *NOT_UNDERSTOOD])
def test_scripts_noticed_failure_or_text_not_understood_is_not_reported(script: str) -> None:
    assert unnoticed(script) is None


def test_scripts_background_in_setup_is_not_reported() -> None:
    assert unnoticed("vllm serve m &", "setup") is None
    assert unnoticed("vllm serve m | tee log", "setup")


WORDS = [*"$({[`'\"<>|&;\n#\\}])=-! ", "if ", "fi\n", "do ", "done\n", "case a in", "esac", "<<E"]


@given(st.lists(st.sampled_from([*WORDS, "python a ", "then ", "else ", "while "])).map("".join))
def test_scripts_random_script_has_a_command_where_one_is_reported(script: str) -> None:
    finding = scripts.find_unnoticed("run", script)
    assert finding is None or script[finding[0] :].startswith("python")


UNITS = [
    "a=(",
    "f() ",
    "<<E\n",
    "<<E\nE\n",
    "$(",
    "${",
    '"$(',
    '\\"',
    "[[ ",
    "a",
    "1",
    "case a in ",
]
UNITS += ["a) b;; ", "python | tee && ", "{ a; } || ", "set -", "trap ", "if a; then ", "a & ", "("]


@pytest.mark.parametrize("unit", UNITS)
def test_scripts_hostile_script_is_read_in_bounded_time(unit: str) -> None:
    start = time.process_time()
    scripts.find_unnoticed("run", ("python a\n" + unit * scripts.MAX_SCRIPT)[: scripts.MAX_SCRIPT])
    assert time.process_time() - start < 5
