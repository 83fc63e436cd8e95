"""Each example is valid, matches its golden file, is accepted by the cluster, and runs."""

import os
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import gallery
from tests.e2e.command import Command
from tests.e2e.gallery import BLOCKS, check_run

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
RUNTIME = sorted((ROOT / "runtime").iterdir())
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


# Tests of their backends run these, where the kind is installed.
INSTALLED = {"14-jobset", "18-appwrapper", "19-volcano", "21-mpijob"}
# These need something outside the cluster, or large images. Other tests run them, with stand-ins.
DRY = {"22-bucket", "24-pytorch-ddp", "25-fine-tune", "26-vllm-batch", "27-ray"} | {
    path.stem for path in EXAMPLES if "33" <= path.stem < "44" and path.stem[:2] != "39"
}
SERVED = {"23-service", "30-vllm-serve", "31-sglang-serve", "32-ollama"}  # test_serve.py runs one
DEVELOPED = {"39-jupyter"}  # test_dev.py runs another
# These show what only a real cluster can answer: DNS, volumes, GPUs, images, users.
NEED_CLUSTER = {
    "05-multi-node",
    "06-volume",
    "07-gpu",
    "08-busybox",
    "10-scratch-volume",
    "12-group",
    "16-rendezvous",
    "17-without-root",
    "20-ports",
}


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path) -> None:
    """Link the examples: their paths are relative to the root of the checkout."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def example(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def packed(text: str) -> str:
    """Replace runtime scripts by their names; mask values that depend on the checkout."""
    for script in RUNTIME:
        indented = textwrap.indent(script.read_text(), "    ")
        block = re.compile(rf"{re.escape(script.name)}: \|\n" + re.escape(indented))
        text = block.sub(f"{script.name}: <runtime/{script.name}>\n", text)
    text = re.sub(r'(files-\d{3}-\d{3}: )"?[\w+/=]+"?\n', r"\1…\n", text)
    text = re.sub(r"(?<=kubectl-sky-runtime-)[0-9a-f]{8}", "…", text)
    hashes = r"(?<=: )files-[0-9a-f]{20}|(?<=sha256 )[0-9a-f]{64}|(?<=    \d{3} )[0-9a-f]{64}"
    return re.sub(hashes, "…", text)


def flags_of(name: str) -> list[str]:
    """Return the flags of an example's command in the golden file."""
    return gallery.commands(BLOCKS[name])[-1][2 + (name in SERVED | DEVELOPED) :]


def test_golden_examples_have_commands_of_every_example() -> None:
    assert {path.stem for path in EXAMPLES} == set(BLOCKS)


def test_render_example_matches_golden_file(offline: Command, example: Path) -> None:
    """Rendering is byte-stable; `UPDATE_GOLDEN=1` regenerates the files for review."""
    flags = ("--id", "example1", "--user", "alice@example.com", "-n", "team-a", "--no-runtime")
    done = offline("render", str(example), *flags, *flags_of(example.stem))
    assert done.returncode == 0, done.stderr
    golden = GOLDEN / f"{example.stem}.yaml"
    text = packed(done.stdout)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_validate_example_passes_strict(offline: Command, example: Path) -> None:
    done = offline("validate", "--strict", str(example))
    expected = ("submit needs --secret ", "may add the Linux capability IPC_LOCK")
    lines = done.stderr.splitlines()
    warnings = [line for line in lines if not any(text in line for text in expected)]
    assert (done.returncode, warnings) == (0, [])


@pytest.mark.parametrize("name", sorted(DRY))
def test_submit_example_that_cannot_run_is_accepted_by_server(sky: Command, name: str) -> None:
    *before, submit = gallery.commands(BLOCKS[name])
    for command in before:
        assert sky(*command).returncode == 0
    done = sky(*submit, "--dry-run=server")
    assert done.returncode == 0, done.stderr


def param_of(name: str) -> Any:
    marks = [] if name in NEED_CLUSTER else [pytest.mark.practice_only]
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize(
    "name",
    [param_of(name) for name in sorted(set(BLOCKS) - INSTALLED - DRY - SERVED - DEVELOPED)],
)
def test_submit_example_prints_output_of_page(sky: Command, name: str) -> None:
    check_run(sky, name)


def stand_ins(folder: Path, *sources: Path) -> list[str]:
    """Return the flags that run an example with stand-ins for its programs, in a small image."""
    for source in (ROOT / "tests" / "standins", *sources):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable))).parent
    path = f".:{python}:/usr/local/bin:/usr/bin:/bin"
    return ["--workdir", str(folder), "--env", f"PATH={path}", "--image", "python:3.13-slim"]


def test_submit_ddp_example_processes_meet_at_rank_0(sky: Command, tmp_path: Path) -> None:
    flags = stand_ins(tmp_path / "work")
    script = ROOT / "tests" / "cluster" / "standins" / "train_distributed.py"
    shutil.copy(script, tmp_path / "work" / "train.py")
    done = sky(*gallery.commands(BLOCKS["24-pytorch-ddp"])[0], *flags)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines()[1:])
    assert lines == [f"node-{n // 2} | process {n} of 4 met 4" for n in range(4)]


@pytest.mark.practice_only
def test_submit_readme_task_runs_as_it_stands(sky: Command, tmp_path: Path) -> None:
    """Only the GPUs are fewer; torchrun and train.py are stand-ins."""
    readme = (ROOT / "README.md").read_text()
    task = readme.partition("## A task file")[2].partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "train.yaml").write_text(task)
    assert sky("validate", "--strict", "train.yaml").returncode == 0
    volume = re.findall(r"kubectl sky (volumes create .*?)`", task)
    assert sky(*volume[0].split()).returncode == 0
    flags = stand_ins(tmp_path / "work")
    script = ROOT / "tests" / "cluster" / "standins" / "train_distributed.py"
    shutil.copy(script, tmp_path / "work" / "train.py")
    done = sky("submit", "train.yaml", "--gpus", "A100:2", *flags)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[1:])[0] == "node-0 | process 0 of 4 met 4"


@pytest.mark.practice_only
def test_submit_fine_tune_example_resumes_from_checkpoint(sky: Command, tmp_path: Path) -> None:
    check_run(sky, "25-fine-tune", *stand_ins(tmp_path / "work", ROOT / "examples" / "fine-tune"))


@pytest.mark.practice_only
def test_submit_vllm_example_prints_output_of_page(sky: Command, tmp_path: Path) -> None:
    check_run(sky, "26-vllm-batch", *stand_ins(tmp_path / "work"))


@pytest.mark.alone
@pytest.mark.tools  # Ray
@pytest.mark.practice_only  # it has no image with Ray; here it is the Ray of the tests
def test_submit_ray_example_prints_output_of_page(sky: Command) -> None:
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("pods of the practice cluster have a /tmp of their own, without the checkout")
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    settings = {"PATH": path, "RAY_raylet_start_wait_time_s": "120", "RAY_USAGE_STATS_ENABLED": "0"}
    variables = [f"--env={name}={value}" for name, value in settings.items()]
    check_run(sky, "27-ray", "--cpus", "0.1", "--memory", "64Mi", *variables)
