"""Every command of SkyPilot works here or has an answer."""

import json
import os
import re
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kubectl_sky.cli import skypilot
from kubectl_sky.cli.main import COMMANDS, sky
from kubectl_sky.errors import UserError
from programs.bench import skypilot as bench
from tests.cli.commands import commands

SCRIPT = Path(bench.__file__).with_name("verbs.py")


PROGRAM = "kubectl sky"


_LAUNCH = 'unknown command "launch"; use `kubectl sky '
_STOP = "use `kubectl sky stop TASK`, which deletes the task and its logs"


def error_of(line: str) -> str:
    done = CliRunner().invoke(sky, line.split(), prog_name=PROGRAM)
    assert done.exit_code == 2, done.output
    return done.output.partition("Error: ")[2].rstrip("\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("launch", 'unknown command "launch"; use `kubectl sky submit`'),
        ("launch task.yaml -y", _LAUNCH + "submit task.yaml -y`"),
        ("launch --infra k8s task.yaml", _LAUNCH + "submit --infra k8s task.yaml`"),
        ("launch --nonsense task.yaml", _LAUNCH + "submit`"),
        ("squeue -u me", 'unknown command "squeue"; use `kubectl sky list`\n-u: use --all-users'),
        ("apply -f x.yaml", 'unknown command "apply"; use `kubectl sky submit`\n-f: leave it out'),
        ("config get-contexts", 'unknown command "config get-contexts"; use it without `sky`'),
        ("cancel x 1", 'unknown command "cancel"; use `kubectl sky stop TASK`, which deletes'),
        ("down -a -y", _STOP + "\n-a: use --all"),
        ("jobs cancel -n x", "-n: name the task as an argument"),
        ("list -s RUNNING", """Invalid value for '-s' / '--server': "RUNNING" is not a server"""),
        ("list -s RUNNING", "address; use --status"),
        ("list -l 20", "-l selects by labels; use --limit 20"),
        ("list x", "Got unexpected extra argument (x); `kubectl sky status TASK` shows one"),
        ("list -a", "No such option '-a'; leave it out: finished tasks are listed, too"),
        ("volumes create v --size 10", "use `kubectl sky volumes create NAME SIZE`"),
        ("volumes apply --name v", "No such option '--name'; use `kubectl sky volumes create"),
        ("exec x ls -l /", "put -- before a program with options: `kubectl sky exec x -- ls -l /`"),
        ("exec x nvidia-smi -q", "`kubectl sky exec x -- nvidia-smi -q`"),
        ("exec --rank 1 x sh -c ls", "`kubectl sky exec --rank 1 x -- sh -c ls`"),
        ("exec x --gpus 1 ls", "No such option '--gpus'; leave it out: it runs in the task"),
        ("exec x task.yaml -d", "No such option '-d'; it runs until the program ends"),
        ("submit -f x.yaml", "No such option '-f'; leave it out: the file is an argument"),
        ("submit x.yaml --accelerators A100", "No such option '--accelerators'; use --gpus"),
        ("serve logs x 1", "extra argument (1); for the log of one replica, use --replica"),
        ("serve update x x.yaml", "extra argument (x.yaml); the name is in the file"),
        ("serve up x.yaml --service-name x", "No such option '--service-name'; use --name"),
        ("jobs queue", 'unknown command "jobs queue"; use `kubectl sky list`'),
        ("jobs pool apply x", 'unknown command "jobs pool apply"; there are no pools'),
        ("jobs", 'unknown command "jobs"; jobs are tasks'),
        ("serve ls", 'unknown command "serve ls"; use `kubectl sky serve status`'),
        ("gpus list --all", 'unknown command "gpus list"; use `kubectl sky gpus`'),
        ("submit x --async", "No such option '--async'; use --detach"),
        ("stop --async", "No such option '--async'."),
        ("logs x -s", 'Option "-s" requires an argument; for --sync-down, use --output-dir'),
        ("submit x --infra", 'Option "--infra" requires an argument.'),
        ("list --field-selector x=y", "No such option '--field-selector'; use --status STATE"),
        ("logs x --all-containers", "No such option '--all-containers'; name one with -c"),
    ],
)
def test_habits_of_skypilot_are_answered(line: str, message: str) -> None:
    assert message in error_of(line)


def test_every_unknown_option_is_answered_at_once() -> None:
    assert error_of("submit x --async --down --nonsense=1").splitlines() == [
        "No such option '--async'; use --detach",
        "No such option '--down'; leave it out: a task's pods end when it ends",
        "No such option '--nonsense'; see --help",
    ]


def test_options_of_unknown_verb_are_answered_with_it() -> None:
    assert error_of("launch -c dev --gpus=A100:1 task.yaml --async").splitlines() == [
        'unknown command "launch"; use `kubectl sky submit`',
        "-c: use --name",
        "--async: use --detach",
    ]


def test_file_as_program_of_exec_is_submitted_instead() -> None:
    with pytest.raises(UserError, match=r'"task\.yaml" is a file') as caught:
        sky.main(["exec", "x", "task.yaml"], standalone_mode=False)
    assert caught.value.hint.endswith("kubectl sky submit task.yaml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jobs submit x", "submit x"),
        ("jobs logs x", "logs --follow x"),
        ("clean --older-than 7d", "stop --leftovers --older-than 7d"),
        ("ports web -o json", "status --ports web -o json"),
        ("fairshare status", "queues fairshare"),
        ("why x", "doctor x"),
    ],
)
def test_old_words_are_those_of_a_command(old: str, new: str) -> None:
    context = click.Context(sky, info_name=PROGRAM)
    _, command, args = sky.resolve_command(context, old.split())
    name, *rest = new.split()
    assert (command, args) == (sky.get_command(context, name), rest)


def test_answers_name_commands_that_exist() -> None:
    texts = [verb.answer for verb in (*skypilot.VERBS.values(), *skypilot.OTHER_VERBS.values())]
    texts += [text for answers in skypilot.OPTIONS.values() for text in answers.values()]
    for words in re.findall("`kubectl sky ([a-z -]+)", " ".join(texts)):
        name = words.split()[0]
        assert name in COMMANDS
        command = sky.get_command(click.Context(sky), name)
        second = words.split()[1:2]
        if isinstance(command, click.Group) and second:
            assert second[0] in command.commands


@pytest.mark.parametrize("name", skypilot.OPTIONS)
def test_answers_name_options_that_exist(name: str) -> None:
    existing = {option for param in commands()[name].params for option in param.opts}
    for answer in skypilot.OPTIONS[name].values():
        advised = re.sub("`.*?`", "", answer.partition("use ")[2])
        assert {*re.findall(r"--[a-z-]+", advised)} <= existing, answer


@pytest.mark.tools
def test_every_command_of_skypilot_has_an_answer(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(bench.python()), "-W", "ignore", str(SCRIPT)],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
    )
    verbs = json.loads(done.stdout)
    assert len(verbs) > 50
    assert [verb for verb in verbs if verb not in skypilot.VERBS] == []
    # An answer to nothing that SkyPilot has is a mistake, or SkyPilot has a new name for it.
    known = {" ".join(verb.split()[:count]) for verb in verbs for count in (1, 2, 3)}
    assert set(skypilot.VERBS) - known == set()
