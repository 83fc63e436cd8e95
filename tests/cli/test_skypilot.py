"""Every command and every option of SkyPilot works here or has an answer."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from kubectl_sky.cli import skypilot, slurm_words
from kubectl_sky.cli.main import COMMANDS, sky
from kubectl_sky.cli.options import SharedOption
from kubectl_sky.errors import UserError
from kubectl_sky.words import skypilot_verbs
from kubectl_sky.words.skypilot_options import COMMON, FLAGS, OPTIONS
from kubectl_sky.words.skypilot_verbs import VERBS
from programs.bench import skypilot as bench
from tests.cli.commands import commands, parse

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
        ("launch task.yaml -y", _LAUNCH + "submit -y task.yaml`"),
        ("launch --infra k8s task.yaml", _LAUNCH + "submit --infra k8s task.yaml`"),
        ("launch --secret K=V task.yaml", _LAUNCH + "submit --secret K task.yaml`"),
        ("launch --nonsense task.yaml", _LAUNCH + "submit`"),
        ("apply -f x.yaml", 'unknown command "apply"; use `kubectl sky submit`\n-f: leave it out'),
        ("config get-contexts", 'unknown command "config get-contexts"; use it without `sky`'),
        ("cancel x 1", 'unknown command "cancel"; use `kubectl sky stop TASK`, which deletes'),
        ("down -a -y", _STOP + "\n-a: use --all"),
        ("jobs cancel -n x", "-n: name the task as an argument"),
        ("logs --tail all", "use a number of lines, or -1 for all"),
        ("queues list x", "unexpected extra argument (x); it takes no argument"),
        ("cp a b c:d", "unexpected extra argument (c:d); it takes SOURCE TARGET, and a path in"),
        ("volumes create v 10 Gi", "extra argument (Gi); write 10Gi, without a space"),
        (
            "logs --tail=20lines x",
            "not a valid integer range; use a number of lines, or -1 for all",
        ),
        ("status x --output", "requires an argument; write --output [json|yaml|name|"),
        ("exec --it x bash", "no such option '--it'; did you mean '-it'?"),
        ("submit --file x.yaml", "no such option '--file'; leave it out: FILE is an argument"),
        ("logs x --node 1", "no such option '--node'; use --rank"),
        ("list --failed", "no such option '--failed'; use --status failed"),
        ("list --wide", "no such option '--wide'; use --output wide"),
        ("submit x --node 2", "no such option '--node'; use --num-nodes"),
        (
            "submit x --tag v2",
            "no such option '--tag'; for a value of your own, use --env TAG=VALUE",
        ),
        (
            "submit --hf-token hf_x a.yaml",
            "no such option '--hf-token'; for a secret, export HF_TOKEN=…, then --secret HF_TOKEN",
        ),
        (
            "submit a.yaml --password=hunter2",
            "no such option '--password'; for a secret, export PASSWORD=…, then --secret PASSWORD",
        ),
        ("render x --out dir", "no such option '--out'; use --output-dir"),
        ("run --command ls", "no such option '--command'; write CMD after --"),
        ("exec x --rank 0,1 -- ls", "is not a valid integer range; use one number, or --all-ranks"),
        ("list --columns NAME", "no such option '--columns'; use -o custom-columns=NAME:.name,"),
        ("submit x --count 8", "no such option '--count'; use --gpus"),
        ("list --status faild", "did you mean 'failed'?"),
        ("status x -o yml", "did you mean 'yaml'?"),
        ("list --sort name", "no such option '--sort'; did you mean '--sort-by'?"),
        ("list volumes", "extra argument (volumes); use `kubectl sky volumes list`"),
        ("cp -r a x:/b", "no such option '-r'; leave it out: folders are copied with their files"),
        (
            "port-forward x --port 80",
            "no such option '--port'; leave it out: REMOTE is an argument",
        ),
        ("list --status failed,running", "repeat it for several: --status failed --status running"),
        ("list --json", "no such option '--json'; use -o json"),
        ("list -s RUNNING", """Invalid value for '-s' / '--server': "RUNNING" is not a server"""),
        ("list -s RUNNING", "such as https://HOST:PORT; use --status STATE"),
        ("stop --yes -l=", "the selector is empty; for everything, use --all"),
        ("volumes delete --yes -l=", "the selector is empty; for everything, use --all"),
        ("list -l app:web", "such as app=web, app!=web or 'app in (web,db)'"),
        ("logs x --since 2025-07-23T10:00", "for a time, use --since-time 2025-07-23T10:00"),
        ("--timestamps logs x", "write it after the command: `kubectl sky logs --timestamps`"),
        ("--zzz logs x", "No such option '--zzz'"),
        ("stop -c x", "no such option '-c'; leave it out: a task is named as an argument"),
        (
            "dev list",
            'unknown command "dev list"; use `kubectl sky list`: a development pod is a task',
        ),
        ("spot launch x.yaml", "use `kubectl sky submit x.yaml`"),
        ("list -l a=b, c=d", "quote it: 'a=b, c=d'"),
        ("list -o jsonpath={range .tasks[*]}{.id}{end}", "quote it: 'jsonpath={range .tasks[*]}"),
        ("list -l 20", "-l selects by labels; use --limit 20"),
        ("list x", "Got unexpected extra argument (x); `kubectl sky status TASK` shows one"),
        ("list -a", "no such option '-a'; leave it out: finished tasks are listed, too"),
        ("volumes create v --size 10", "use `kubectl sky volumes create NAME SIZE`"),
        ("volumes apply --name v", "no such option '--name'; use `kubectl sky volumes create"),
        ("exec x ls -l /", "put -- before a program with options: `kubectl sky exec x -- ls -l /`"),
        ("exec --token T x ls -l", "`kubectl sky exec x -- ls -l`"),
        ("exec x nvidia-smi -q", "`kubectl sky exec x -- nvidia-smi -q`"),
        ("exec --rank 1 x sh -c ls", "`kubectl sky exec --rank 1 x -- sh -c ls`"),
        ("exec x --gpus 1 ls", "no such option '--gpus'; leave it out: it runs in the task"),
        ("exec x ceph -s", '"-s" requires an argument; write the options of CMD after --'),
        ("exec -c x ls", "missing argument '-- CMD...'; give the task instead"),
        ("exec x task.yaml -d", "no such option '-d'; it runs until the program ends"),
        ("submit -f x.yaml", "no such option '-f'; leave it out: the file is an argument"),
        ("submit x.yaml --accelerators A100", "no such option '--accelerators'; use --gpus"),
        ("serve logs x 1", "extra argument (1); for the log of one replica, use --replica"),
        ("serve update x x.yaml", "extra argument (x.yaml); the name is in the file"),
        ("serve up x.yaml --service-name x", "no such option '--service-name'; use --name"),
        ("jobs queue", 'unknown command "jobs queue"; use `kubectl sky list`'),
        ("jobs pool apply x", 'unknown command "jobs pool apply"; there are no pools'),
        ("jobs", 'unknown command "jobs"; jobs are tasks'),
        ("serve ls", 'unknown command "serve ls"; use `kubectl sky serve status`'),
        ("gpus list --all", 'unknown command "gpus list"; use `kubectl sky gpus`'),
        ("submit x --async", "no such option '--async'; use --detach"),
        ("stop --async", "no such option '--async'; leave it out: it returns when the cluster"),
        ("logs x -s", 'Option "-s" requires an argument; for --sync-down, use --output-dir'),
        ("status -v x", "is not a valid integer range; for more details, use -o json"),
        ("submit x -i10 --down", "no such option '-i'; leave it out"),
        ("submit x --infra", 'Option "--infra" requires an argument; write --infra k8s/CONTEXT'),
        ("usage --by", 'Option "--by" requires an argument; write --by [user|name|gpu]'),
        ("diff", "Missing argument 'FILE'; such as `kubectl sky diff task.yaml`"),
        ("submit x --ram 16", "no such option '--ram'; use --memory"),
        ("submit x --time-limit 1h", "no such option '--time-limit'; use --max-duration"),
        (
            "submit x --labels a=b",
            "no such option '--labels'; write `labels:` under resources in the",
        ),
        ("submit x --retry 3", "write `max_restarts_on_errors:` under resources.job_recovery in"),
        ("submit x --background", "no such option '--background'; use --detach"),
        ("submit x --set A=1", "no such option '--set'; use --env NAME=VALUE"),
        ("submit x --replace", "`kubectl sky rerun` replaces the last one"),
        ("doctor --task x", "no such option '--task'; leave it out: TASK is an argument"),
        ("stop --status failed", "the options are --selector, --all, --leftovers"),
        ("run -f x.yaml", "no such option '-f'; use `kubectl sky submit FILE`"),
        (
            "kubectl sky list",
            'unknown command "kubectl"; leave out "kubectl sky": `kubectl sky list`',
        ),
        ("$ kubectl sky logs x", 'leave out "$ kubectl sky": `kubectl sky logs x`'),
        ("sky", 'leave out "sky": `kubectl sky --help`'),
        ("sky launch a.yaml", 'unknown command "launch"; use `kubectl sky submit a.yaml`'),
        ("sky jobs queue", 'unknown command "jobs queue"; use `kubectl sky list`'),
        ("kubectl get pods", 'unknown command "get"; use `kubectl sky list`'),
        ("sky why x", 'leave out "sky": `kubectl sky why x`'),
        ("task logs x", "tasks need no noun: `kubectl sky logs x`"),
        ("pods", 'unknown command "pods"; use `kubectl sky list`'),
        ("create volume x", 'unknown command "create"; use `kubectl sky volumes create`'),
        ("get gpus", 'unknown command "get"; use `kubectl sky gpus`'),
        ("port forward x 80", "did you mean `kubectl sky port-forward x 80`?"),
        ("re run", "did you mean `kubectl sky rerun`?"),
        ("cordon x", 'unknown command "cordon"; use it without `sky`: `kubectl cordon`'),
        ("stop-all", 'unknown command "stop-all"; did you mean `kubectl sky stop`?'),
        ("SUBMIT x", 'unknown command "SUBMIT"; did you mean `kubectl sky submit`?'),
        ("--list", "no such option '--list'; did you mean `kubectl sky list`?"),
        ("\u2014help", "it begins with a long dash; write --help"),
        ("download x", "use `kubectl sky cp`: `kubectl sky cp TASK:PATH .`"),
        ("sh x.sh", "to run it in a task: `kubectl sky run -- sh x.sh`"),
        ("volumes show x", "did you mean `kubectl sky volumes status`?"),
        ("volumes resize x", "the commands are create, apply, list"),
        ("usage --since 1hour", '"1hour" is not a duration; did you mean "1h"?'),
        ("list --field-selector x=y", "no such option '--field-selector'; use --status STATE"),
        ("cp -c main x:/a .", "no such option '-c'; leave it out: files are in the task's"),
    ],
)
def test_habits_of_skypilot_are_answered(line: str, message: str) -> None:
    assert message in error_of(line)


def test_quoted_command_line_is_written_without_quotes() -> None:
    done = CliRunner().invoke(sky, ["list --all-users"], prog_name=PROGRAM)
    assert "write it without quotes: `kubectl sky list --all-users`" in done.output


@pytest.mark.parametrize("word", ["docker", "health", "monitor", "label", "tasks"])
def test_command_of_another_meaning_is_not_proposed(word: str) -> None:
    assert "did you mean" not in error_of(word)


def test_output_format_is_proposed_to_commands_that_have_one() -> None:
    assert error_of("cp a b --json") == "no such option '--json'; the options are --rank, --yes"


def test_every_unknown_option_is_answered_at_once() -> None:
    assert error_of("submit x --async --down --nonsense=1").splitlines() == [
        "no such option '--async'; use --detach",
        "no such option '--down'; leave it out: a task's pods end when it ends",
        "no such option '--nonsense'; for a value of your own, use --env NONSENSE=VALUE",
    ]


def test_options_of_unknown_verb_are_answered_with_it() -> None:
    assert error_of("launch -c dev --gpus=A100:1 task.yaml --async").splitlines() == [
        _LAUNCH + "submit --name dev --gpus A100:1 --detach task.yaml`",
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
    tables = (VERBS, skypilot.OTHER_VERBS, slurm_words.VERBS)
    texts = [verb.answer for table in tables for verb in table.values()]
    options = (COMMON, *OPTIONS.values(), *slurm_words.OPTIONS.values())
    texts += [text for answers in options for text in answers.values()]
    for words in re.findall("`kubectl sky ([a-z -]+)", " ".join(texts)):
        name = words.split()[0]
        assert name in COMMANDS
        command = sky.get_command(click.Context(sky), name)
        second = words.split()[1:2]
        if isinstance(command, click.Group) and second:
            assert second[0] in command.commands


def options_of(name: str) -> set[str]:
    """Return the options of a command, or of the one that does what a verb of SkyPilot does."""
    command = name if name in commands() else VERBS[name].command
    return {option for param in commands()[command].params for option in param.opts}


@pytest.mark.parametrize("name", OPTIONS)
def test_answers_name_options_that_exist(name: str) -> None:
    for answer in OPTIONS[name].values():
        advised = re.sub("`.*?`", "", answer.partition("use ")[2])
        assert {*re.findall(r"--[a-z-]+", advised)} <= options_of(name), answer


@pytest.mark.parametrize("name", OPTIONS)
def test_each_unknown_option_prints_its_answer(name: str) -> None:
    existing = options_of(name) if name in commands() else set()
    for option, answer in OPTIONS[name].items():
        if option not in existing and option != "-no-d":  # read as -n o-d
            assert error_of(f"{name} {option}").splitlines()[-1].endswith(answer)


@pytest.fixture(scope="module")
def verbs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[list[str], bool]]]:
    """All commands of SkyPilot, with the names of each option, and whether it takes a value."""
    home = tmp_path_factory.mktemp("home")
    options: dict[str, list[tuple[list[str], bool]]] = bench.run_script("verbs.py", home)
    assert len(options) > 50
    return options


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("launch 'echo hi'", "run -- echo hi"),
        ("launch 'echo $HOME | wc'", "run -- 'echo $HOME | wc'"),
        (f"launch {'x' * 300}", f"run -- {'x' * 300}"),  # too long for the name of a file
        ("launch python train.py", "run -- python train.py"),
        ("launch --gpus A100:1 -- nvidia-smi -q", "run --gpus A100:1 -- nvidia-smi -q"),
        ("launch -c a --down --num-nodes=2 hostname", "run --name a --num-nodes 2 -- hostname"),
        ("jobs launch -n x -y ls", "run --name x -y -- ls"),
        ("launch -i10 -dy --dryrun task.yaml", "submit -d -y --dry-run task.yaml"),
        ("launch --cluster=a --priority -5 a.yaml", "submit --name a --priority -5 a.yaml"),
        ("launch -c a", "submit --name a"),
        ("launch --nonsense 1 ls", "run"),
        ("launch --nonsense 1 task.yaml", "submit"),
    ],
)
def test_launch_of_a_command_runs_it_and_of_a_file_submits_it(line: str, answer: str) -> None:
    done = CliRunner().invoke(sky, shlex.split(line), prog_name=PROGRAM)
    assert f"; use `kubectl sky {answer}`\n" in done.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sbatch", 'unknown command "sbatch"; use `kubectl sky submit`'),
        ("sbatch train.sbatch", "use `kubectl sky submit train.sbatch`"),
        (
            "sbatch -N 2 -W --time=10 train.sh a --lr 1",
            "use `kubectl sky submit --num-nodes 2 train.sh -- a --lr 1`\n-N: use --num-nodes\n"
            "-W: leave it out: it waits, unless with --detach\n"
            "--time: write it in the script: #SBATCH --time",
        ),
        ("sbatch -d afterok:1 a", "use `kubectl sky submit a`\n-d: use --after TASK"),
        ("sbatch --wrap=ls", "--wrap: use `kubectl sky run 'CMD'`"),
        ("srun -N2 python x.py -l", "use `kubectl sky run --num-nodes 2 -- python x.py -l`"),
        ("srun --pty bash", "use `kubectl sky run -- bash`\n--pty: use `kubectl sky dev`"),
        ("srun", 'unknown command "srun"; use `kubectl sky run`'),
        (
            "squeue -u me",
            'unknown command "squeue"; use `kubectl sky list`\n-u: your own tasks are listed;',
        ),
        (
            "scancel -u me",
            "use `kubectl sky stop TASK`, which deletes the task and its logs\n-u: use",
        ),
        ("sacct -j 12", "-j: use `kubectl sky status TASK`"),
        ("salloc -N1", 'unknown command "salloc"; use `kubectl sky dev`'),
    ],
)
def test_habits_of_slurm_are_answered(line: str, message: str) -> None:
    assert message in error_of(line)


@pytest.mark.parametrize("name", slurm_words.OPTIONS)
def test_answers_to_options_of_slurm_name_options_that_exist(name: str) -> None:
    command = slurm_words.VERBS[name].command
    existing = {option for param in commands()[command].params for option in param.opts}
    for answer in slurm_words.OPTIONS[name].values():
        advised = re.sub("`.*?`", "", answer.partition("use ")[2])
        assert {*re.findall(r"--[a-z-]+", advised)} <= existing, answer


def test_yes_of_volumes_apply_is_accepted() -> None:
    parse(["volumes", "apply", "-y", "volume.yaml"])


@pytest.mark.parametrize(
    "option", ["--config", "--sever", "--servers", "--tokens", "--contexts", "--ass"]
)
def test_guess_never_proposes_who_runs_a_command_and_where(option: str) -> None:
    for name in commands():
        message = error_of(f"{name} {option}")
        assert not re.search("'--(as|server|kubeconfig|context|token|cluster)'", message), name


@pytest.mark.tools
def test_every_command_of_skypilot_has_an_answer(verbs: dict[str, object]) -> None:
    assert [verb for verb in verbs if verb not in VERBS] == []
    # An answer to nothing that SkyPilot has is a mistake, or SkyPilot has a new name for it.
    known = {" ".join(verb.split()[:count]) for verb in verbs for count in (1, 2, 3)}
    assert set(VERBS) - known == set()


DETACHES = {"launch -d", "jobs launch -d"}  # -d is of --detach-run there, of --detach here


def same(command: click.Command, names: list[str], takes_value: bool) -> set[str]:
    """Return the names of our option that has a long name of SkyPilot's, and its kind."""
    long_names = {name for name in names if name.startswith("--")}
    for option in command.params:
        if isinstance(option, click.Option) and not isinstance(option, SharedOption):
            ours = {*option.opts, *option.secondary_opts}
            if ours & long_names and option.is_flag is not takes_value:
                return ours
    return set()


@pytest.mark.tools
def test_every_option_of_skypilot_works_or_has_an_answer(
    verbs: dict[str, list[tuple[list[str], bool]]],
) -> None:
    missing = []
    for verb, parameters in verbs.items():
        name = VERBS[verb].command.partition(" -")[0]
        for names, takes_value in parameters if name else ():
            working = same(commands()[name], names, takes_value)
            missing += [
                f"{verb} {option}"
                for option in names
                if option not in working
                and f"{verb} {option}" not in DETACHES
                and not skypilot_verbs.option(name, option, verb)
            ]
    assert missing == []


@pytest.mark.tools
def test_flags_are_those_of_skypilot(verbs: dict[str, list[tuple[list[str], bool]]]) -> None:
    flags = {
        name
        for verb in ("launch", "jobs launch", "exec")
        for names, takes_value in verbs[verb]
        for name in names
        if not takes_value
    }
    assert flags == FLAGS


def test_split_value_of_a_secret_is_not_repeated() -> None:
    words = ["serve", "up", "t.yaml", "--secret", "KEY=hunter2,", "x"]
    with pytest.raises(click.UsageError) as caught:
        sky.main(words, standalone_mode=False)
    assert "hunter2" not in str(caught.value)
