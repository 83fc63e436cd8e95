"""The Action and the pre-commit hook that validate task files, run as their users run them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import cache

ROOT = Path(__file__).parent.parent
STEPS: list[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
GOOD = "run: echo hello\n"
WRONG = "rnu: echo hello\n"
WARNED = "resources: {infra: aws}\nrun: echo hello\n"
Done = subprocess.CompletedProcess[str]
# pip's cache of this machine; without compiled files, half of the time.
PIP = {"HOME": str(cache.HOME), "PIP_NO_COMPILE": "1"}


class Action:
    """The steps of action.yml after setup-python, as a runner executes them."""

    def __init__(self, temporary: Path) -> None:
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(temporary),
            "ACTION_PATH": str(ROOT),
        }

    def __call__(self, folder: Path, files: str = "**/*.sky.yaml", strict: str = "false") -> Done:
        """Validate the files of a checkout."""
        return self.run(STEPS[2], folder, FILES=files, STRICT=strict)

    def run(self, step: dict[str, Any], folder: Path, **inputs: str) -> Done:
        assert step["shell"] == "bash"
        assert set(step["env"]) == {"ACTION_PATH", *inputs}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=self.environment | inputs,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def action(tmp_path_factory: pytest.TempPathFactory) -> Action:
    """The Action with the packages of this environment instead of those that it installs."""
    return Action(tmp_path_factory.mktemp("runner"))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A checkout whose modules have the names of those that the steps import."""
    for name in ("pip", "kubectl_sky", "click", "yaml", "json", "fnmatch", "subprocess"):
        module = tmp_path / f"{name}.py"
        module.write_text("open(__file__ + '.ran', 'w')\nraise SystemExit(0)\n")
    (tmp_path / "wrong.sky.yaml").write_text(WRONG)
    return tmp_path


@pytest.mark.tools
@pytest.mark.timeout(600)
def test_action_in_hostile_checkout_installs_packages_and_runs_no_module_of_it(
    action: Action, hostile: Path
) -> None:
    action.environment |= PIP
    done = action.run(STEPS[1], hostile)
    assert done.returncode == 0, done.stderr
    assert Path(action.environment["RUNNER_TEMP"], "kubectl-sky", "click").is_dir()

    done = action(hostile)
    assert not list(hostile.glob("*.ran"))
    assert done.returncode == 2
    assert "wrong.sky.yaml:1:1: rnu:" in done.stdout + done.stderr


def test_action_in_hostile_checkout_runs_no_module_of_it(action: Action, hostile: Path) -> None:
    done = action(hostile)
    assert not list(hostile.glob("*.ran"))
    assert done.returncode == 2
    assert "wrong.sky.yaml:1:1: rnu:" in done.stdout


def test_action_validates_matching_files_only(action: Action, tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "with space.sky.yaml").write_text(GOOD)
    (tmp_path / "other.yaml").write_text(WRONG)
    done = action(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "deep" / "wrong.sky.yaml").write_text(WRONG)
    done = action(tmp_path)
    assert done.returncode == 2
    assert "deep/wrong.sky.yaml:1:1: rnu:" in done.stdout + done.stderr
    assert "other.yaml" not in done.stdout + done.stderr


def test_action_with_strict_fails_on_warning(action: Action, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(WARNED)
    assert action(tmp_path, files="none.yaml\n task.yaml\n\n").returncode == 0
    assert action(tmp_path, files="task.yaml", strict="true").returncode == 2


@pytest.mark.parametrize("files", ["", "absent/*.yaml", "$(touch pwned)", "'; import os #"])
def test_action_without_matching_file_fails(action: Action, tmp_path: Path, files: str) -> None:
    done = action(tmp_path, files=files)
    assert done.returncode == 2 and "\nerror: no files match " in done.stdout
    assert not list(tmp_path.iterdir())


def test_action_skips_links_and_quotes_nothing_of_them(action: Action, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    outside = tmp_path / "outside"
    (checkout / "tasks").mkdir(parents=True)
    outside.mkdir()
    (outside / "token.sky.yaml").write_text("SECRET-TOKEN\n")
    (checkout / "file.sky.yaml").symlink_to(outside / "token.sky.yaml")
    (checkout / "tasks" / "folder").symlink_to(outside)
    done = action(checkout)
    assert done.returncode == 2 and "no files match" in done.stdout
    assert "skipped: 'file.sky.yaml' is a symbolic link" in done.stdout
    assert "token" not in done.stdout + done.stderr, "names outside of the checkout"

    (checkout / "task.sky.yaml").write_text(GOOD)
    done = action(checkout)
    assert done.returncode == 0 and "1 file valid" in done.stdout
    assert "SECRET" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("**/*.sky.yaml", ["a.sky.yaml", "x/a.sky.yaml", "x/y/a.sky.yaml"]),
        ("./x//*.sky.yaml", ["x/a.sky.yaml"]),
        ("x/**", ["x/a.sky.yaml", "x/y/a.sky.yaml"]),
        ("**/y/**/[a-c].*.yaml", ["x/y/a.sky.yaml"]),
        (".h/*.yaml\n*/.h/*", [".h/a.sky.yaml", "x/.h/a.sky.yaml"]),
        ("**/**/.task.yaml", [".task.yaml"]),
        ("../*.yaml", []),
        ("/*.yaml", []),
    ],
)
def test_action_patterns_match_as_in_a_shell(
    action: Action, tmp_path: Path, pattern: str, matches: list[str]
) -> None:
    for folder in ("", "x", "x/y", ".h", "x/.h"):
        (tmp_path / "checkout" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / folder / "a.sky.yaml").write_text(WRONG)
    (tmp_path / "checkout" / ".task.yaml").write_text(WRONG)
    (tmp_path / "outside.yaml").write_text(WRONG)
    done = action(tmp_path / "checkout", files=pattern)
    assert re.findall(r"^(?:error: )?(\S+):1:1: rnu:", done.stdout, re.MULTILINE) == matches


def test_action_with_cyclic_links_ends(action: Action, tmp_path: Path) -> None:
    (tmp_path / "x.sky.yaml").write_text(GOOD)
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(".")
    done = action(tmp_path)
    assert done.returncode == 0 and "1 file valid" in done.stdout


def test_action_looks_for_no_local_files(action: Action, tmp_path: Path) -> None:
    task = "workdir: /proc\nfile_mounts: {/a: /etc/passwd, /b: /absent}\nrun: echo\n"
    (tmp_path / "x.sky.yaml").write_text(task)
    done = action(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "link to" not in done.stdout and "no such file" not in done.stdout


def workflow_commands(output: str) -> list[str]:
    """Return the lines that a runner executes, as actions/runner parses them."""
    executed = []
    token = ""
    for line in output.splitlines():
        if token:
            token = "" if line.strip() == f"::{token}::" else token
        elif match := re.fullmatch(r"\s*::stop-commands::(.+)", line):
            token = match[1]
        elif re.match(r"\s*::.+?::", line) or "##[" in line:
            executed.append(line)
    assert not token, "later steps have their commands"
    return executed


@pytest.mark.parametrize("text", [GOOD, WRONG, "'##[error]x': 1\n"])
def test_action_file_name_or_text_is_no_workflow_command(
    action: Action, tmp_path: Path, text: str
) -> None:
    names = ["::error::x.sky.yaml", "a\n::add-mask::run\n.sky.yaml", "%0A##[error]x.sky.yaml"]
    for name in names:
        (tmp_path / name).write_text(text)
    (tmp_path / "::warning::x.sky.yaml").symlink_to(names[0])
    done = action(tmp_path)
    assert done.returncode == (0 if text == GOOD else 2)
    assert done.stderr == "", "a second stream has no order to the first one"
    assert workflow_commands(done.stdout) == []
    assert workflow_commands(f"{done.stdout}::notice::of a later step\n")


def test_action_with_a_path_that_no_system_call_takes_checks_the_others(
    action: Action, tmp_path: Path
) -> None:
    (tmp_path / "wrong.sky.yaml").write_text(WRONG)
    folder = os.open(tmp_path, os.O_DIRECTORY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    done = action(tmp_path)
    assert done.returncode == 2
    assert "skipped: 'ddd" in done.stdout and "File name too long" in done.stdout
    assert "wrong.sky.yaml:1:1: rnu:" in done.stdout
    assert workflow_commands(f"{done.stdout}::notice::of a later step\n")


def test_action_passes_file_named_as_flag(action: Action, tmp_path: Path) -> None:
    (tmp_path / "--help.sky.yaml").write_text(WRONG)
    assert action(tmp_path).returncode == 2


@pytest.mark.tools
@pytest.mark.timeout(600)
def test_pre_commit_hook_checks_task_files_only(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "good.sky.yaml").write_text(GOOD)
    (tmp_path / "wrong.sky.yml").write_text(WRONG)
    (tmp_path / "--user=x.sky.yaml").write_text(WRONG)
    (tmp_path / ".sky.yaml").write_text("kubernetes: {}\n")  # settings of SkyPilot
    (tmp_path / "values.yaml").write_text(WRONG)
    (tmp_path / "link.sky.yaml").symlink_to("/etc/passwd")
    git("add", ".")
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "--all-files"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | PIP | {"PRE_COMMIT_HOME": str(tmp_path / ".git" / "pre-commit")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    for name in ("wrong.sky.yml", "--user=x.sky.yaml"):
        assert f"{name}:1:1: rnu:" in done.stdout
    assert "exit code: 2" in done.stdout
    assert not [name for name in ("good.sky", "values", "link") if name in done.stdout]
