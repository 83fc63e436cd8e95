"""The command line entry point: exit codes, stdout and stderr, and no tracebacks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import Command


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (("--help",), "", 0, ""),
        (("nonsense",), "", 2, 'unknown command "nonsense"'),
        (("render",), "", 2, "missing argument 'FILE...'"),
        (("render", "--nonsense", "-"), "", 2, "no such option"),
        (("render", ""), "", 2, "error: the name of a file is empty\nhint: is a variable of your"),
        (("logs", "--since-time", "today"), "", 2, '"today" is not a time; use RFC 3339: 2026'),
        (("render", "none.yaml"), "", 2, "none.yaml: cannot be read: no such file"),
        (("submit", "echo hi"), "", 2, "without a file: kubectl sky run 'echo hi'"),
        (("render", "/"), "", 2, "/: cannot be read: is a directory"),
        (("render", "-"), "", 2, "<stdin>: the file is empty"),
        (("render", "-"), "run: [", 2, "invalid YAML"),
        (("render", "-", "--strict"), "run: a\nname: a b", 2, "<stdin>:2:7: name: error: "),
        (("submit", "-", "--strict"), "run: a\nname: a b", 2, "<stdin>:2:7: name: error: "),
        (("validate", "-", "--strict"), "run: a\nname: a b", 2, "<stdin>:2:7: name: error: "),
        (("render", "-", "--id", "X"), "run: a", 2, "error: --id X: an id has 8 lower-case"),
        (("render", "-", "--num-nodes", "0"), "run: a", 2, "--num-nodes: num_nodes: "),
        (("render", "-", "--cpus", "abc"), "run: a", 2, "--cpus: resources.cpus: "),
        (("render", "-", "--env", "NOPE"), "run: a", 2, "error: --env NOPE: no value"),
        (("render", "-", "--env-file", "none"), "run: a", 2, "error: --env-file none: no such"),
        (("render", "-", "--templates", "none"), "run: a", 2, "error: --templates none: no such"),
        (("render", "-", "--templates", "/bin"), "run: a", 2, "--templates /bin: no file has"),
        (("render", "-"), "run: a\nenvs: {A: }", 2, "<stdin>:2:11: envs.A: the value is not set"),
        (("list",), "", 3, "error: no kubeconfig: none at ~/.kube/config"),
        (("wait", "x", "--timeout", "soon"), "", 2, '"soon" is not a duration; use 90s'),
    ],
)  # fmt: skip
def test_main_invalid_arguments_exit_with_code_and_message(
    sky: Command, arguments: tuple[str, ...], stdin: str, code: int, message: str
) -> None:
    done = sky(*arguments, stdin=stdin)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--statsu"), "no such option '--statsu'; did you mean '--status'?"),
        (
            ("stacks", "t", "--rank", "5"),
            "no such option '--rank'; the options are --bring-py-spy, --output",
        ),
        (("wait", "t", "--for"), 'option "--for" requires an argument; write --for STATE'),
        (
            ("exec",),
            "missing argument '-- CMD...'; such as `kubectl sky exec TASK -- nvidia-smi`",
        ),
    ],
)
def test_main_usage_error_has_form_of_all_errors(
    sky: Command, arguments: tuple[str, ...], message: str
) -> None:
    hint = f"run `kubectl-sky {arguments[0]} --help` for options and examples"
    assert sky(*arguments).stderr == f"error: {message}\nhint: {hint}\n"


def test_render_closed_pipe_is_no_error(tmp_path: Path) -> None:
    task = tmp_path / "task.yaml"
    task.write_text("num_nodes: 500\nrun: a\n")
    command = f"{sys.executable} -m kubectl_sky render {task} | head -n 1"
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "error" not in done.stderr.lower()
    assert done.stdout == "apiVersion: v1\n"


@pytest.mark.parametrize(
    ("redirects", "code", "message"),
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("<&-", 0, ""),
        pytest.param(
            "> /dev/full",
            1,
            "error: cannot write the output: no space left on device\n",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only"),
        ),
    ],
)
def test_main_closed_stream_or_full_disk_is_no_internal_error(
    tmp_path: Path, redirects: str, code: int, message: str
) -> None:
    task = tmp_path / "task.yaml"
    task.write_text("run: a\n")
    command = f"{sys.executable} -m kubectl_sky render --user ann {task} {redirects}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message)


def test_auth_login_and_logout_change_whoami(sky: Command) -> None:
    assert sky("auth", "login", "alice@example.com").stdout == (
        "Logged in as alice@example.com (as a label: alice-example.com)\n"
    )
    assert sky("auth", "whoami").stdout == "alice@example.com\n"
    assert sky("auth", "logout").stdout == "Logged out alice@example.com\n"
    assert sky("auth", "whoami").returncode == 3
    assert sky("auth", "login", "…").returncode == 2


def test_run_ends_though_a_thread_runs() -> None:
    script = """
import atexit, threading, time
from kubectl_sky.cli import main

def command(arguments):
    atexit.register(print, "cleaned up")
    threading.Thread(target=time.sleep, args=[60], daemon=True).start()
    return 4

main.main = command
main.run([])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, "cleaned up\n", "")


def test_run_unhandled_exception_exits_with_1() -> None:
    script = "from kubectl_sky.cli import main; main.main = lambda _: 1 / 0; main.run([])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--sweep", "LR=0.1", "0.2"], "separate the values of --sweep with commas"),
        (["--env", "A", "=1"], "write --env NAME=VALUE, without spaces"),
        (["--secret", "A=secret", "B=2"], "write --secret before each value"),
        (["--env=A=say", "hi"], "put the value of --env into quotes"),
    ],
)
def test_second_word_behind_a_flag_is_named_as_one_more_value(
    sky: Command, words: list[str], advice: str
) -> None:
    done = sky("submit", "-", *words)
    assert (done.returncode, f"hint: {advice}\n" in done.stderr) == (2, True), done.stderr
    assert "A=" not in done.stderr


@pytest.mark.parametrize("words", [["--env", "A=1", "x.yaml"], ["--num-nodes", "2", "x"]])
def test_word_behind_a_flag_with_a_whole_value_is_a_file(sky: Command, words: list[str]) -> None:
    err = sky("submit", *words).stderr
    assert f"{words[-1]}: cannot be read" in err


def test_options_with_one_dash_are_no_short_ones(sky: Command) -> None:
    err = sky("submit", "-name", "x", "-").stderr
    assert "no such option '-name'; did you mean '--name'?" in err
    err = sky("run", "python", "x.py", "-name").stderr
    assert "no such option '-name'; write the options of CMD after --" in err


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("ok,yaml", 'did you mean "ok.yaml"?'),
        ("*.yml", "no file matches; there are ok.yaml"),
        ("\N{EM DASH}gpus", "it begins with a long dash; write --gpus"),
        ("link.yaml", "it is a link to gone.yaml, which does not exist"),
        ("C:\\task.yaml", "write / instead of \\ in paths"),
        ("job.sh", "job.sh:1:1: a batch script begins with #!; write #!/bin/bash at the start"),
        ("late.sh", "late.sh:3:1: #SBATCH stands after the first command, where sbatch ignores"),
        ("prog", "a program, not a task file; to run it: kubectl sky run --workdir . -- prog"),
        ("nb.ipynb", "a notebook, not a task file; make a program of it: jupyter nbconvert"),
    ],
)
def test_file_that_is_not_found_or_no_task_has_a_next_step(
    sky: Command, tmp_path: Path, file: str, message: str
) -> None:
    (tmp_path / "ok.yaml").write_text("run: echo")
    (tmp_path / "nb.ipynb").write_text("{}")
    (tmp_path / "job.sh").write_text(" #!/bin/sh\n#SBATCH -N 1\necho\n")
    (tmp_path / "late.sh").write_text("#!/bin/sh\nset -e\n#SBATCH -N 1\necho\n")
    (tmp_path / "prog").write_bytes(b"\x7fELF\0")
    (tmp_path / "prog").chmod(0o755)
    (tmp_path / "link.yaml").symlink_to("gone.yaml")
    done = sky("submit", file)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_argument_of_a_batch_script_behind_a_flag_is_no_file(sky: Command, tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").write_text("#!/bin/sh\n#SBATCH -N 1\necho $1\n")
    done = sky("render", "a.sbatch", "--env", "A=1", "x")
    assert (done.returncode, "is no file" in done.stderr) == (0, False), done.stderr


EXITING = """
import atexit, os, signal
from kubectl_sky.cli import main
atexit.register(os.kill, os.getpid(), signal.SIGINT)
main.main = lambda _: 130
main.run([])
"""


def test_second_interrupt_during_the_exit_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", EXITING], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
