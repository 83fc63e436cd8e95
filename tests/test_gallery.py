"""The scripts of the examples: flags of their programs, and what they do when a program fails."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.polling import eventually
from tests.standins import flags

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
_EXEC = re.compile(r"^# +kubectl sky exec \S+ -- (.*)$", re.MULTILINE)  # commands in the comments


def scripts(example: Path) -> Iterator[str]:
    """Yield the scripts of an example, and the commands in its comments."""
    text = example.read_text()
    for document in yaml.safe_load_all(text):
        yield from (document[field] for field in ("setup", "run") if field in document)
    for command in _EXEC.findall(text):
        words = shlex.split(command, comments=True)
        yield words[-1] if words[:2] == ["sh", "-c"] else " ".join(words)


def calls(script: str) -> Iterator[list[str]]:
    """Yield the words of the calls of known programs."""
    script = re.sub(r"\\\n|<<'?(\w+)'?\n.*?^\1$", " ", script, flags=re.DOTALL | re.MULTILINE)
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command = list[str]()
        for word in [*lexer, ";"]:
            if word and set(word) <= set("();<>|&"):
                starts = [n for n, word in enumerate(command) if is_program(command[n:])]
                yield from (command[n:] for n in starts[:1])
                command = []
            else:
                command.append(word.rpartition("/")[2] if not command else word)


def is_program(words: list[str]) -> bool:
    return words[0] in flags.PROGRAMS or " ".join(words[:3]) in flags.FLAGS


def test_examples_call_programs_with_their_flags() -> None:
    programs = list[str]()
    for example in EXAMPLES:
        for script in scripts(example):
            for call in calls(script):
                flags.check(call)
                programs.append(call[0])
    assert set(programs) >= {"accelerate", "aws", "jupyter", "pip", "python3", "tensorboard"}
    assert len(programs) >= 30


def test_examples_jupyter_of_root_allows_root() -> None:
    """The default image runs as root, where JupyterLab refuses to start without the flag."""
    (call,) = [call for script in scripts(example("39")) for call in calls(script) if "lab" in call]
    assert "--allow-root" in call


def example(number: str) -> Path:
    (path,) = (ROOT / "examples").glob(f"{number}-*.yaml")
    return path


class Run:
    """Runs `run` of an example by bash in a folder, which also has its /tmp and its buckets."""

    def __init__(self, folder: Path, number: str, *sources: str) -> None:
        self.folder = folder
        for source in (
            ROOT / "tests" / "standins",
            *(ROOT / "examples" / name for name in sources),
        ):
            shutil.copytree(source, folder / "work", dirs_exist_ok=True)
        (folder / "tmp").mkdir()
        document = yaml.safe_load(example(number).read_text())
        script = document["run"].replace("sleep 60", "sleep 1")
        self.script = script.replace("/tmp/", f"{folder}/tmp/")
        path = f"{folder}/work:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ = {"PATH": path, "BUCKETS": str(folder), "SKYPILOT_TASK_ID": "t"}
        self.environ |= {"AWS_SECRET_ACCESS_KEY": "s", "PYTHONUNBUFFERED": "1", **document["envs"]}

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start it as entry.sh does, in a process group of its own."""
        return subprocess.Popen(
            ["bash", "-c", self.script],
            cwd=self.folder / "work",
            env=self.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, **variables: str) -> tuple[int, str]:
        with self.start(**variables) as process:
            out, _ = process.communicate()
        return process.returncode, out


def files(folder: Path) -> Mapping[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_spot_example_failure_fails_and_saves_last_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path, "42", "fine-tune")
    bucket = tmp_path / "my-bucket" / "spot" / "t"
    code, out = run()
    assert (code, "CUDA error in step 130" in out) == (1, True), out
    assert files(bucket)["last/name"] == "checkpoint-100\n"
    shutil.rmtree(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    half = bucket / "checkpoint-150"  # a node was lost while it saved this one
    half.mkdir()
    code, out = run()
    assert (code, "starting from checkpoint-100" in out) == (0, True), out
    assert files(bucket)["last/name"] == "checkpoint-200\n"
    assert (bucket / "final").is_dir()


def test_spot_example_stopped_node_saves_last_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path, "42", "fine-tune")
    bucket = tmp_path / "my-bucket" / "spot" / "t"
    (tmp_path / "work" / "finetune.py").write_text(
        "import pathlib, sys, time\n"
        "folder = pathlib.Path(sys.argv[-1], 'checkpoint-50')\n"
        "folder.mkdir()\n"
        "(folder / 'trainer_state.json').touch()\n"
        "(folder.parent / 'checkpoint-100').mkdir()\n"
        "time.sleep(600)\n"
    )

    with run.start() as process:
        eventually(lambda: (tmp_path / "tmp" / "checkpoints" / "checkpoint-100").exists())
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
    assert process.returncode != 0
    assert files(bucket)["last/name"] == "checkpoint-50\n"


@pytest.mark.parametrize("number", ["42", "43"])
def test_bucket_example_without_credentials_fails(tmp_path: Path, number: str) -> None:
    variables = {"SKYPILOT_NUM_JOBS": "1", "SKYPILOT_JOB_RANK": "0", "AWS_SECRET_ACCESS_KEY": ""}
    code, out = Run(tmp_path, number, "fine-tune")(**variables)
    assert (code != 0, "Unable to locate credentials" in out) == (True, True)


def test_bucket_array_example_answers_what_is_missing(tmp_path: Path) -> None:
    run = Run(tmp_path, "43")
    (tmp_path / "my-bucket" / "prompts").mkdir(parents=True)
    model = run.environ["MODEL"]
    request = (
        f'{{"custom_id": "1", "body": {{"model": "{model}", "messages": [{{"content": "a"}}]}}}}\n'
    )
    for name in "abc":
        (tmp_path / "my-bucket" / "prompts" / name).write_text(request)
    jobs = {"SKYPILOT_NUM_JOBS": "1", "SKYPILOT_JOB_RANK": "0"}
    assert run(**jobs) == (0, "a is answered\nb is answered\nc is answered\n")

    (tmp_path / "my-bucket" / "answers" / "b").unlink()
    assert run(**jobs) == (0, "b is answered\n")

    (tmp_path / "my-bucket" / "prompts" / "d").write_text("no JSON")
    code, out = run(**jobs)
    assert (code != 0, "d is answered" in out) == (True, False)


def test_fine_tune_example_sharded_model_is_saved(tmp_path: Path) -> None:
    """Accelerate's FSDP example saves the whole model at the end, not only shards."""
    run = Run(tmp_path, "34", "fine-tune")
    shutil.copytree(ROOT / "examples" / "fine-tune", tmp_path / "work", dirs_exist_ok=True)
    output = tmp_path / "tmp" / "output"
    (output / "checkpoint-150").mkdir(parents=True)
    run.script = f"python3 finetune.py --model m --output {output}"
    code, out = run(ACCELERATE_USE_FSDP="true")
    assert (code, (output / "final").is_dir()) == (0, True), out


def test_readme_of_examples_is_recipes_page() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    links = re.sub(r"\]\((?!\.\./)", "](../docs/", page).replace("](../examples/", "](")
    made = "made from docs/recipes.md by UPDATE_GOLDEN=1 pytest tests/test_gallery.py"
    text = f"<!-- {made} -->\n{links}"
    readme = ROOT / "examples" / "README.md"
    if os.environ.get("UPDATE_GOLDEN"):
        readme.write_text(text, encoding="utf-8")
    assert readme.read_text(encoding="utf-8") == text, "run it with UPDATE_GOLDEN=1"
    missing = [path.name for path in EXAMPLES if f"(../examples/{path.name})" not in page]
    assert missing == []
