"""Completion of command lines: what completes each word, for shells and for kubectl."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from kubectl_sky.cli import complete
from kubectl_sky.cli.main import COMMANDS, main, sky
from tests.cli.commands import commands
from tests.e2e.command import PROGRAM
from tests.forked import Forked

TASKS = [("train", "running"), ("test", "failed"), ("bcdf2345", "train, running")]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cluster that has tasks; the list of requested sources."""
    sources: list[str] = []

    def fetch(source: str, params: object) -> list[tuple[str, str]]:
        sources.append(source)
        return TASKS

    monkeypatch.setattr(complete, "_fetch", fetch)
    return sources


def items(*words: str) -> list[CompletionItem[str]]:
    *args, incomplete = words
    return ShellComplete(sky, {}, "kubectl sky", complete.VARIABLE).get_completions(
        list(args), incomplete
    )


def words(*arguments: str) -> list[str]:
    return [item.value for item in items(*arguments)]


def test_complete_empty_line_lists_commands_with_purpose() -> None:
    assert {item.value: item.help for item in items("")} == COMMANDS
    assert words("lo") == ["logs", "local"]
    assert "create" in words("volumes", "")


def test_complete_dash_lists_flags_with_help() -> None:
    flags = {item.value: item.help for item in items("logs", "--")}
    assert flags["--namespace"] == "Namespace (default: that of the context)."
    assert "--rank" in words("logs", "--ra")
    assert "--follow" not in words("logs", "--follow", "--fo")


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (("logs", "--color", ""), ["auto", "always", "never"]),
        (("logs", "--color=n"), ["never"]),
        (("list", "-o", "js"), ["json", "jsonpath="]),
        (("submit", "--backend", "jo"), ["jobs", "jobset"]),
        (("submit", "--expose", "p"), ["podip"]),
        (("submit", "--dry-run", "s"), ["server"]),
        (("submit", "--gang", "r"), ["required"]),
        (("init", "--example", "multi"), ["multi-node"]),
        (("config", "set", "backend", "j"), ["jobs", "jobset"]),
        (("config", "set", "ports.expose", "p"), ["podip"]),
    ],
)
def test_complete_choice_lists_values(arguments: tuple[str, ...], values: list[str]) -> None:
    assert words(*arguments) == values


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        (("logs", ""), "tasks"),
        (("logs", "-n", "team", "-f", ""), "tasks"),
        (("volumes", "delete", ""), "volumes"),
        (("queues", "status", ""), "queues"),
        (("submit", "--queue", ""), "queues"),
        (("submit", "--gpus", ""), "gpus"),
        (("list", "-n", ""), "namespaces"),
        (("-n", ""), "namespaces"),
        (("--context", "a", "--namespace="), "namespaces"),
        (("volumes", "-n", ""), "namespaces"),
        (("list", "--context", ""), "contexts"),
        (("list", "--context="), "contexts"),
        (("list", "--user", ""), "owners"),
        (("users", "remove", ""), "accounts"),
    ],
)
def test_complete_name_asks_cluster(
    cluster: list[str], arguments: tuple[str, ...], source: str
) -> None:
    assert words(*arguments) == [name for name, _ in TASKS]
    assert cluster == [source]


@pytest.mark.usefixtures("cluster")
def test_complete_prefix_and_given_tasks_are_respected() -> None:
    assert words("logs", "t") == ["train", "test"]
    assert words("stop", "train", "t") == ["test"]
    assert words("cp", "tr") == ["tr", "train:"], "bash drops what comes before a file"


def test_complete_unsafe_names_are_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ["$(touch x)", "a b", "`id`", "a;b", "*", "\x1b[2J", "a\nb", "arn:aws:eks:x/y", "good"]
    names += ["--all", "=ls"]
    monkeypatch.setattr(complete, "_fetch", lambda source, params: [(name, "") for name in names])
    assert words("list", "--context", "") == ["arn:aws:eks:x/y", "good"]


def test_complete_hostile_description_is_one_harmless_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "evil\x1b]0;x\x07\r\nplain\n--all\u202e, running"
    monkeypatch.setattr(complete, "_fetch", lambda source, params: [("bcdf2345", text)])
    assert [item.help for item in items("stop", "")] == ["evil plain --all<U+202E>, running"]


def test_complete_files_and_folders_are_left_to_shell() -> None:
    assert [item.type for item in items("submit", "")] == ["file"]
    assert [item.type for item in items("submit", "--workdir", "")] == ["dir"]
    assert [item.type for item in items("submit", "--env-file", "")] == ["file"]


def test_complete_every_task_file_and_folder_parameter_has_candidates() -> None:
    for name, command in commands().items():
        for param in command.params:
            metavar = param.metavar or (param.name or "").upper()
            if metavar.strip("[].") in ("TASK", "FILE", "DIR", "VOLUME", "QUEUE"):
                assert isinstance(param.type, complete.Text), (name, param.name)


@pytest.mark.parametrize("kubeconfig", ["clusters: [", "{}", ""])
def test_complete_without_usable_cluster_prints_nothing(tmp_path: Path, kubeconfig: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig)
    environment = {"HOME": str(tmp_path), "KUBECONFIG": str(file), "PATH": os.environ["PATH"]}
    done = Forked(PROGRAM, environment, tmp_path)("__complete", "logs", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", "")
    environment |= {complete.VARIABLE: "bash_complete"}
    environment |= {"COMP_WORDS": "kubectl-sky logs ", "COMP_CWORD": "2"}
    done = Forked(PROGRAM, environment, tmp_path)()
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense", ""], ["logs", "--nonsense", ""], ["\udcff"]]
)
def test_complete_wrong_words_give_directive_only_or_commands(
    tmp_path: Path, arguments: list[str]
) -> None:
    environment = {"HOME": "/nonexistent", "KUBECONFIG": "/nonexistent", "PATH": "/usr/bin:/bin"}
    done = Forked(PROGRAM, environment, tmp_path)("__complete", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(":4\n")


def test_complete_ends_without_waiting_for_requests(tmp_path: Path) -> None:
    script = (
        "import time; from concurrent.futures import ThreadPoolExecutor as Pool;"
        "from kubectl_sky.actions import completion; from kubectl_sky.cli import main;"
        "completion.candidates = lambda *_: list(Pool().map(time.sleep, [60]));"
        "main.run_completion()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "logs", ""],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == ":4\n"


@pytest.mark.parametrize(
    ("shell", "value"),
    [("bash", "completed"), ("zsh", "--for=completed"), ("fish", "--for=completed")],
)
def test_complete_value_after_equals_sign_keeps_what_the_shell_replaces(
    tmp_path: Path, shell: str, value: str
) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    environment |= {complete.VARIABLE: f"{shell}_complete"}
    environment |= {"COMP_WORDS": "kubectl-sky wait hello --for=co", "COMP_CWORD": "3"}
    if shell == "fish":
        environment |= {"COMP_CWORD": "--for=co"}
    done = Forked(PROGRAM, environment, tmp_path)()
    assert value in re.split(r"[,\s]", done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_prints_script_of_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert complete.VARIABLE in script and "kubectl-sky" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
