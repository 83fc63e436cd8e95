"""Development pods: the plan, and the scripts that keep them up and serve ssh."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kubectl_sky.dev import model
from kubectl_sky.plan import runtime
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.load import load
from kubectl_sky.spec.task import Task
from kubectl_sky.words import assets, names
from kubectl_sky.workloads.decide import TaskEntry
from tests.builders import make_plan

HOUR = 3600


def make_dev(lifetime: int | None = None, idle: int | None = None, **fields: object) -> Task:
    return model.dev_pod(Task(name="dev", **fields), model.Expiry(lifetime, idle))  # type: ignore[arg-type]


def test_dev_pod_runs_setup_and_stays_on_one_node() -> None:
    plan = make_plan(make_dev(setup="pip install x", run="python train.py", num_nodes=4))
    assert len(plan.nodes) == 1
    assert plan.scripts["setup.sh"] == "pip install x"
    assert plan.scripts["run.sh"].endswith("exec sleep 2147483647\n")
    assert plan.annotations[names.INTERACTIVE] == "true"


def test_dev_pod_with_limits_is_interactive_and_announces_that_it_is_ready() -> None:
    plan = make_plan(make_dev(8 * HOUR, HOUR))
    assert plan.scripts["run.sh"].startswith("lifetime=28800 idle=3600\n")
    assert runtime.READY.decode() in plan.scripts["run.sh"]
    assert plan.annotations[names.INTERACTIVE] == "true"


def test_dev_lifetime_sets_deadline_with_time_for_start() -> None:
    plan = make_plan(make_dev(8 * HOUR))
    assert plan.pod_options.pod_config["spec"] == {"activeDeadlineSeconds": 9 * HOUR}
    assert make_plan(make_dev(idle=HOUR)).pod_options.pod_config == {}


def test_dev_lifetime_keeps_pod_config_of_task() -> None:
    spec = {"activeDeadlineSeconds": 60, "nodeName": "a"}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    assert make_dev(HOUR, kubernetes=Kubernetes(pod=pod)).kubernetes.pod == pod


@pytest.mark.parametrize(
    ("run", "is_named", "name"),
    [("python train.py", False, "exp-dev"), (None, False, "exp"), ("x", True, "exp")],
)
def test_dev_pod_leaves_the_name_to_the_program_of_its_file(
    run: str | None, is_named: bool, name: str
) -> None:
    (document,) = load(b"name: exp\n", "task.yaml")
    entry = TaskEntry(document, Task(name="exp", run=run), "bcdf2345")
    (pod,) = model.only_pod([entry], model.Expiry(), is_named=is_named)
    assert pod.task.name == name


def test_dev_scripts_are_not_in_other_tasks() -> None:
    assert "sshd.sh" in make_plan(make_dev()).scripts
    assert "sshd.sh" not in make_plan(Task(name="other")).scripts


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            make_dev(),
            ["the development pod stays up until it is stopped; --for and --idle limit it"],
        ),
        (make_dev(5400), ["the development pod ends 1h30m after setup"]),
        (
            make_dev(idle=61),
            ["the development pod ends after 1m1s without exec sessions and CPU use"],
        ),
        (
            make_dev(8 * HOUR, HOUR, run="x", num_nodes=2),
            [
                "run: ignored by dev",
                "num_nodes: ignored by dev",
                "the development pod ends 8h after setup, or after 1h without exec sessions and"
                " CPU use",
            ],
        ),
    ],
)
def test_dev_notes_say_when_pod_ends_and_what_is_ignored(task: Task, expected: list[str]) -> None:
    assert [*runtime.interactive_notes(task), *task.notes] == expected


class Container:
    """stay.sh in a folder that stands for /proc and /sys/fs/cgroup."""

    def __init__(self, folder: Path, shell: str = "sh") -> None:
        self.proc = folder / "proc"
        self.cgroup = folder / "cgroup"
        self.cgroup.mkdir()
        self.add(1, 0)  # the entrypoint
        self.add(8, 1)  # its child
        self.cpu(5_000_000)
        self._shell = shell

    def add(self, pid: int, parent: int, name: str = "sh") -> None:
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1\n")

    def remove(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def cpu(self, microseconds: int) -> None:
        new = self.cgroup / "new"
        new.write_text(f"usage_usec {microseconds}\nuser_usec 1\nsystem_usec 1\n")
        new.rename(self.cgroup / "cpu.stat")

    def script(self, lifetime: int, idle: int) -> str:
        text = model.stay(model.Expiry(lifetime, idle))
        return text.replace("=/proc", f"={self.proc}").replace("=/sys/fs/cgroup", f"={self.cgroup}")

    def start(self, lifetime: int = 0, idle: int = 0) -> "Stay":
        """Start the script with the clock at 0."""
        return Stay(self._shell, _CLOCK + self.script(lifetime, idle))


# Each sleep lasts until the test has set the clock.
_CLOCK = """
now=0
date() { echo "$now"; }
sleep() { echo asleep; read -r now; }
"""


class Stay:
    """stay.sh with a clock of the test."""

    def __init__(self, shell: str, text: str) -> None:
        self._process = run_shell(shell, text)
        self.noted = list(iter(self._line, "asleep"))

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the script has ended"
        return line.strip()

    def at(self, seconds: int) -> str:
        """Set the clock, and return what the script prints then: "asleep" if it goes on."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        line = self._line()
        if line != "asleep":
            assert self._process.wait() == 0
        return line

    def close(self) -> None:
        self._process.communicate()  # the end of its input ends the script


def run_shell(shell: str, text: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*shell.split(), "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


IDLE = "kubectl-sky: no exec session and no CPU use for 60 seconds: this development pod ends"
OVER = "kubectl-sky: the time of this development pod is over (60 seconds)"


def test_stay_ends_when_idle(tmp_path: Path, shell: str) -> None:
    with closing(Container(tmp_path, shell).start(idle=60)) as pod:
        assert pod.noted == [runtime.READY.decode()]
        assert [pod.at(10), pod.at(59), pod.at(60)] == ["asleep", "asleep", IDLE]


def test_stay_ends_when_lifetime_is_over_despite_session(tmp_path: Path, shell: str) -> None:
    container = Container(tmp_path, shell)
    container.add(9, 0)
    with closing(container.start(lifetime=60, idle=600)) as pod:
        assert [pod.at(59), pod.at(60)] == ["asleep", OVER]


def test_stay_does_not_end_while_exec_session_runs(tmp_path: Path, shell: str) -> None:
    container = Container(tmp_path, shell)
    container.add(9, 0, "a) S 1 (b")  # a name that looks like the fields after it
    with closing(container.start(idle=60)) as pod:
        assert [pod.at(50), pod.at(500)] == ["asleep", "asleep"]
        container.remove(9)
        assert [pod.at(559), pod.at(560)] == ["asleep", IDLE]


def test_stay_does_not_end_while_cpu_is_used(tmp_path: Path) -> None:
    container = Container(tmp_path)
    with closing(container.start(idle=60)) as pod:
        for seconds in range(10, 500, 10):
            container.cpu(5_000_000 + seconds * 51_000)  # 5.1 % of a CPU
            assert pod.at(seconds) == "asleep"
        for seconds in range(500, 550, 10):
            container.cpu(30_000_000 + seconds * 49_000)
            assert pod.at(seconds) == "asleep"
        assert pod.at(560) == IDLE


def test_stay_ignores_idle_if_cpu_use_is_not_known(tmp_path: Path) -> None:
    container = Container(tmp_path)
    (container.cgroup / "cpu.stat").unlink()
    with closing(container.start(lifetime=60, idle=1)) as pod:
        assert pod.noted[0].startswith("kubectl-sky: --idle is ignored")
        assert [pod.at(59), pod.at(60)] == ["asleep", OVER]


def test_stay_reads_cpu_use_of_cgroup_v1(tmp_path: Path) -> None:
    container = Container(tmp_path)
    (container.cgroup / "cpu.stat").unlink()
    (container.cgroup / "cpuacct").mkdir()
    usage = container.cgroup / "cpuacct" / "cpuacct.usage"
    usage.write_text("5000000000\n")
    with closing(container.start(idle=60)) as pod:
        usage.write_text("9000000000\n")
        assert [pod.at(59), pod.at(118), pod.at(119)] == ["asleep", "asleep", IDLE]


def test_stay_stops_on_sigterm(tmp_path: Path, shell: str) -> None:
    with run_shell(shell, Container(tmp_path, shell).script(0, 60)) as process:
        assert process.stdout
        assert process.stdout.readline() == f"{runtime.READY.decode()}\n"
        process.terminate()
        assert process.wait() != 0


TYPE = "ssh-ed25519"
TEXT = "AAAAC3NzaC1lZDI1NTE5AAAA"


KEYGEN = """
[ "$1" != -y ] || exec cat "$3"
while [ $# -gt 1 ]; do shift; done
echo "ssh-ed25519 HOST$$" > "$1"
touch "$1.pub"
"""


class Image:
    """An image with programs that stand for openssh; sshd prints its arguments."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.files = folder / "files"
        self.bin.mkdir()
        for name in ("env", "sed", "id", "cat", "mkdir", "mv", "ln", "rm", "grep", "chmod"):
            shutil.copy(shutil.which(name) or name, self.bin / name)
        self.program("sshd", 'echo "$@"')
        self.program("ssh-keygen", KEYGEN)

    def program(self, name: str, script: str) -> None:
        file = self.bin / name
        file.unlink(missing_ok=True)  # never write through a link to the system's program
        file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        file.chmod(0o755)

    def run(self, *arguments: str, shell: str = "sh", **environment: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*shell.split(), "-c", assets.read("runtime", "sshd.sh"), "sh", *arguments],
            env={"PATH": str(self.bin), "KUBECTL_SKY_FILES": str(self.files), **environment},
            executable=shutil.which(shell.split()[0]),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def config(self) -> dict[str, str]:
        lines = (self.files / "ssh" / "config").read_text().splitlines()
        return dict(line.partition(" ")[::2] for line in lines)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_sshd_serves_stdin_with_key_and_variables(image: Image, shell: str) -> None:
    variables = {"A": "one two", "PLAIN": "x=y", "COST": "$HOME `id`"}
    odd = {"QUOTED": 'a"b', "SLASH": "a\\b", "LINES": "a\nNOSUCH=b"}
    code, out, err = image.run(TYPE, TEXT, shell=shell, **variables, **odd)
    assert (code, out, err) == (0, f"-i -e -f {image.files}/ssh/config", "")

    config = image.config()
    for name, value in variables.items():
        assert f'"{name}={value}"' in config["SetEnv"]
    for name in (*odd, "NOSUCH"):
        assert name not in config["SetEnv"]

    keys = Path(config["AuthorizedKeysFile"])
    assert keys.read_text() == f"{TYPE} {TEXT}\n"
    assert keys.parent.stat().st_mode & 0o077 == 0

    files = {path.name for path in keys.parent.iterdir()}
    assert files == {"authorized_keys", "config", "host_key"}
    assert config["PasswordAuthentication"] == "no"


def test_sshd_second_connection_keeps_host_key_and_adds_key_once(image: Image) -> None:
    image.run(TYPE, TEXT)
    (image.files / "ssh" / "host_key").write_text("first")
    image.run(TYPE, TEXT)
    image.run(TYPE, f"{TEXT}BBBB")
    assert (image.files / "ssh" / "host_key").read_text() == "first"
    assert (
        image.files / "ssh" / "authorized_keys"
    ).read_text() == f"{TYPE} {TEXT}\n{TYPE} {TEXT}BBBB\n"


def test_sshd_check_prints_user_and_host_key_of_later_connections(image: Image) -> None:
    image.program("id", '[ "$1" = -u ] && echo 1234 || echo ann')
    code, out, err = image.run("--check")
    assert (code, err) == (0, "")
    user, key = out.splitlines()
    assert (user, key[:16]) == ("ann", "ssh-ed25519 HOST")
    assert image.run("--check")[1] == out
    image.run(TYPE, TEXT)
    assert image.run("--check")[1] == out
    assert not (image.files / "ssh" / "host_key").stat().st_mode & 0o077


def test_sshd_parallel_connections_agree_on_host_key(image: Image) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: image.run("--check"), range(8)))
    assert len(answers) == 1, answers
    assert {path.name for path in (image.files / "ssh").iterdir()} == {"host_key"}


def test_sshd_folder_that_is_link_is_refused(image: Image, shell: str, tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir()
    image.files.mkdir()
    (image.files / "ssh").symlink_to(tmp_path / "planted")
    code, _, err = image.run("--check", shell=shell)
    assert (code, err) == (1, f"{image.files}/ssh belongs to another user")
    assert not list((tmp_path / "planted").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="requires root, to change an owner")
def test_sshd_folder_of_other_user_is_refused(image: Image, shell: str) -> None:
    (image.files / "ssh").mkdir(parents=True)
    os.chown(image.files / "ssh", 1234, 1234)
    code, _, err = image.run(TYPE, TEXT, shell=shell)
    assert (code, err) == (1, f"{image.files}/ssh belongs to another user")
    assert image.files.stat().st_mode & 0o1000, "nobody else can rename the folder"


def test_sshd_outside_container_writes_below_its_folder_only(image: Image, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name in ("mkdir", "chmod", "ln", "mv", "rm"):
        image.program(name, f'echo "$@" >> {log}\nexec {name} "$@"')
    assert image.run(TYPE, TEXT)[0] == 0
    words = log.read_text().split()
    paths = [word for word in words if "/" in word and word != "/dev/null"]
    assert paths and all(path.startswith(str(image.files)) for path in paths), paths


def test_sshd_allows_no_more_than_that_of_mpi() -> None:
    """Two scripts configure it: one for connections through exec, one for those of other nodes."""
    settings = [
        set(assets.read("runtime", name).split("<< EOF\n")[1].split("\nEOF")[0].splitlines())
        for name in ("sshd.sh", "mpi.sh")
    ]

    shared = {line for line in settings[0] & settings[1] if line.split()[0] != "HostKey"}
    assert shared == {
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "AuthenticationMethods publickey",
        "PrintLastLog no",
        "LogLevel ERROR",
    }


@pytest.mark.parametrize("program", ["sshd", "ssh-keygen"])
def test_sshd_image_without_program_is_error(image: Image, program: str) -> None:
    if shutil.which(program, path="/usr/local/sbin:/usr/sbin:/sbin"):
        pytest.skip(f"this system has {program} outside of PATH")
    (image.bin / program).unlink()
    assert image.run("--check") == (1, "", f"the image has no {program}")


def test_sshd_user_without_name_is_error(image: Image) -> None:
    image.program("id", '[ "$1" = -u ] && echo 1234')
    code, out, err = image.run("--check")
    assert (code, out) == (1, "")
    assert err == "sshd needs a name for user 1234 in /etc/passwd"
