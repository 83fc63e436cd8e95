"""Each example is valid, matches its golden file, is accepted by the cluster, and runs."""

import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Command, submitted

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
RUNTIME = sorted((ROOT / "runtime").iterdir())
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@dataclass(frozen=True)
class Run:
    """The flags of an example, and a pattern per output line, in any order."""

    flags: tuple[str, ...]
    prints: tuple[str, ...]
    volume: str = ""
    installed: str = ""  # an optional kind; a separate test runs the example
    serves: bool = False  # `serve up` runs it; test_serve.py covers it
    elsewhere: str = ""  # needed outside the cluster; test_buckets.py covers it


RUNS = {
    "01-hello": Run((), (r"Hello from Python 3\.\d+.*",)),
    "02-variables-and-secrets": Run(
        ("--env", "EPOCHS=3", "--secret", "TOKEN=s3cr3t"),
        ("epochs: 3", r'greeting: it\'s \$\(not expanded\) and "quoted"', "token: 6 characters"),
    ),
    "03-resources": Run((), ("sum: 499999500000",)),
    "04-setup": Run(
        (),
        (
            "kubectl-sky: setup begins",
            r"kubectl-sky: setup has ended after \d+ seconds, run begins",
            "weights: 42",
        ),
    ),
    "05-multi-node": Run(
        (),
        tuple(rf"node-{rank} \| rank {rank} of 3; rank 0 is [\d.]+" for rank in range(3))
        + tuple(rf"node-{rank} \| peer [\d.]+" for rank in range(3) for _ in range(3)),
    ),
    "06-volume": Run((), ("runs so far: 1",), volume="notes"),
    "07-gpu": Run((), ("GPUs of this node: 1",)),
    "08-busybox": Run((), tuple(rf"node-{r} \| rank {r} of 2 on node-{r}" for r in range(2))),
    "09-in-turn": Run(
        (),
        (
            r"node-0 \| rank 0 of 3; turns so far: 0",
            r"node-1 \| rank 1 of 3; turns so far: 0 1",
            r"node-2 \| rank 2 of 3; turns so far: 0 1 2",
        ),
        volume="turns",
    ),
    "10-scratch-volume": Run((), ("shuffled: 1000",)),
    "12-group": Run((), (r"reader \| a word from store-0",)),
    "11-pipeline": Run((), ("prepared 10 numbers", "sum: 55"), volume="shelf"),
    "12-indexed": Run(
        (), tuple(rf"node-{rank} \| rank {rank} of 3; rank 0 is [\d.]+" for rank in range(3))
    ),
    "13-array": Run(
        ("--array", "0-9%3"),
        tuple(rf"index-{n} \| square of {n}: {n * n}, one of 10" for n in range(10)),
    ),
    "14-jobset": Run(
        (),
        tuple(rf"node-{rank} \| rank {rank} of 2; rank 0 is [\d.]+" for rank in range(2)),
        installed="jobsets",
    ),
    "18-appwrapper": Run(
        (),
        tuple(rf"node-{rank} \| rank {rank} of 2; rank 0 is [\d.]+" for rank in range(2)),
        installed="appwrappers",
    ),
    "19-volcano": Run(
        (),
        tuple(rf"node-{rank} \| rank {rank} of 2" for rank in range(2)),
        installed="podgroups.scheduling.volcano.sh",
    ),
    "21-mpijob": Run(
        (),
        tuple(rf"node-0 \| rank {rank} of MPI on node {rank} of 3" for rank in range(3)),
        installed="mpijobs",
    ),
    "15-workdir": Run((), tuple(rf"node-{r} \| Good morning from rank {r}" for r in range(2))),
    "16-rendezvous": Run(
        (),
        (
            *(rf"node-{rank} \| rank {rank}: the sum is 60" for rank in range(4)),
            r"node-0 \| the token went by 0 1 2 3",
        ),
    ),
    "22-bucket": Run((), (), elsewhere="the bucket"),
    "23-service": Run((), (), serves=True),
    "20-ports": Run(("--env", "SERVE=1"), ("serving for 1 seconds",)),
    "17-without-root": Run(
        (),
        tuple(
            pattern
            for rank in range(2)
            for pattern in (
                rf"node-{rank} \| kubectl-sky: setup begins",
                rf"node-{rank} \| kubectl-sky: setup has ended after \d+ seconds, run begins",
                rf"node-{rank} \| rank {rank} of 2 without root; 2 addresses",
            )
        ),
    ),
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


def test_examples_all_have_expected_output() -> None:
    assert {path.stem for path in EXAMPLES} == set(RUNS)


def test_render_example_matches_golden_file(offline: Command, example: Path) -> None:
    """Rendering is byte-stable; `UPDATE_GOLDEN=1` regenerates the files for review."""
    flags = ("--id", "example1", "--user", "alice@example.com", "-n", "team-a", "--no-runtime")
    words = ("serve", "render") if RUNS[example.stem].serves else ("render",)
    done = offline(*words, str(example), *flags, *RUNS[example.stem].flags)
    assert done.returncode == 0, done.stderr
    golden, text = GOLDEN / f"{example.stem}.yaml", packed(done.stdout)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_validate_example_passes_strict(offline: Command, example: Path) -> None:
    done = offline("validate", "--strict", str(example))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.elsewhere])
def test_submit_example_that_cannot_run_is_accepted_by_server(sky: Command, name: str) -> None:
    example = str(ROOT / "examples" / f"{name}.yaml")
    done = sky("submit", example, *RUNS[name].flags, "--dry-run=server")
    assert done.returncode == 0, done.stderr


# Where a kind has to be installed, the tests of its backend run the example.
@pytest.mark.parametrize(
    "name",
    [name for name, run in RUNS.items() if not (run.installed or run.elsewhere or run.serves)],
)
def test_submit_example_prints_expected_output(sky: Command, name: str) -> None:
    check_run(sky, ROOT / "examples" / f"{name}.yaml")


def check_run(sky: Command, example: Path) -> None:
    """Submit an example and check its output."""
    run = RUNS[example.stem]
    if run.volume:
        assert sky("volumes", "create", run.volume, "1Gi").returncode == 0
    done = sky("submit", str(example), *run.flags)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[1:]
    assert len(lines) == len(run.prints)
    for pattern in run.prints:
        assert any(re.fullmatch(pattern, line) for line in lines), f"{pattern} not in {lines}"
    assert sky.json("status", submitted(done))["status"] == "completed"
