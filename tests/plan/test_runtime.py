"""Tasks with the shared runtime, and tasks without it."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.plan.runtime import READY, keep_running, runtime
from kubectl_sky.render import manifests
from kubectl_sky.spec.buckets import Bucket
from kubectl_sky.spec.files import LocalFiles, Repository
from kubectl_sky.spec.pipeline import Array
from kubectl_sky.spec.sweep import Sweep
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.spec.volumes import VolumeMount
from kubectl_sky.words import assets, names
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.decide import decide
from tests.actions.drafts import drafted, plans
from tests.builders import FACTS, make_plan, make_task

HELLO = Task(name="hello", run="echo hi\n")
FILES = (LocalFiles("/a", "a", ("file_mounts", "/a")),)
LARGE = (LocalFiles("/large", "large", ("file_mounts", "/large")),)
ARCHIVES = {
    "/a": Archive(True, "digest", 1, 1, b"x"),
    "/large": Archive(True, "digest", 1, 1 << 30, b""),
}


def lines_of(task: Task, runtime: bool = True) -> list[str]:
    rendered = manifests.render(make_plan(task, replace(FACTS, namespace="")))
    items = (rendered if runtime else rendered.without_runtime).all
    return manifests.as_yaml(items).splitlines()


def test_manifests_of_single_node_have_at_most_85_lines() -> None:
    """9 of them are the standard labels, 12 the script."""
    assert len(lines_of(HELLO)) <= 85


def test_manifests_of_three_indexed_nodes_have_at_most_140_lines() -> None:
    ring = replace(HELLO, num_nodes=3, backend="indexed")
    assert len(lines_of(ring, runtime=False)) <= 140


def test_task_with_run_only_has_command_and_no_shared_objects() -> None:
    plan = make_plan(HELLO)
    assert plan.runtime is None
    assert plan.files == {"run.sh": "echo hi\n"}
    rendered = manifests.render(plan)
    assert rendered.shared == ()
    (container,) = rendered.workload[0].object["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [plan.start]


def test_start_command_has_no_kubernetes_variable_references() -> None:
    """Kubernetes expands `$(NAME)`; names of variables have no spaces."""
    start = make_plan(HELLO).start or ""
    assert all(" " in name for name in re.findall(r"\$\(([^)]*)\)", start))


def test_task_with_custom_image_loads_conda_and_bashrc() -> None:
    plan = make_plan(replace(HELLO, resources=Resources(image="pytorch/pytorch")))
    assert plan.files.keys() == {"run.sh", "profile.sh"}
    assert "profile.sh" in (plan.start or "")
    default = make_plan(HELLO, settings=Settings(image="ours:1"))
    assert "profile.sh" in default.files
    assert "profile.sh" not in (make_plan(HELLO).start or "")


def test_runtime_has_same_name_in_all_namespaces() -> None:
    scripts = ["entry.sh", "nodes.sh", "barrier.py", "started.sh"]
    item = runtime("team-a", scripts)
    assert re.fullmatch("kubectl-sky-runtime-[0-9a-f]{8}", item.name)
    assert item.name == runtime("team-b", scripts).name != runtime("team-a", scripts[:1]).name
    assert "username" not in item.labels
    (manifest,) = manifests.render(make_plan(replace(HELLO, num_nodes=2))).shared
    assert manifest.object["data"] == item.scripts
    assert manifest.object["immutable"] is True


PROFILE = "entry.sh profile.sh"
REPOSITORY = Repository("https://git.example/a.git")
SCRIPTS: dict[str, tuple[dict[str, Any], str]] = {
    "nodes": ({"num_nodes": 3}, "entry.sh nodes.sh barrier.py started.sh"),
    "setup": ({"setup": "true\n"}, PROFILE),
    "image": (
        {"num_nodes": 2, "resources": Resources(image="pytorch/pytorch")},
        "entry.sh nodes.sh barrier.py dns.sh started.sh profile.sh",
    ),
    "files": ({"files": FILES}, f"{PROFILE} files.sh unpack.sh"),
    "large files": ({"files": LARGE}, f"{PROFILE} files.sh unpack.sh started.sh"),
    "repository": ({"repository": REPOSITORY}, f"{PROFILE} files.sh clone.sh"),
    "array": ({"array": Array("0-2", 3, 3), "backend": "array"}, "entry.sh array.sh"),
    "sweep": (
        {"array": Array("0-1", 2, 2, Sweep({"X": ("1", "2")})), "backend": "array"},
        "entry.sh array.sh sweep.sh",
    ),
    "home": ({"volumes": (VolumeMount("~/data", "data"),)}, f"{PROFILE} links.sh"),
    "logs": (
        {"volumes": (VolumeMount("/data", "data"),), "logs": "/data/logs"},
        f"{PROFILE} logs.sh",
    ),
    "bucket": ({"buckets": (Bucket("/in", "s3", "box/data"),)}, f"{PROFILE} fetch.sh"),
    "synced bucket": (
        {"buckets": (Bucket("/out", "s3", "box", "MOUNT"),)},
        f"{PROFILE} fetch.sh sync.sh written.sh",
    ),
    "hub": ({"buckets": (Bucket("/in", "hf", "org/model"),)}, f"{PROFILE} fetch.sh hub.py"),
    "mpijob": (
        {"num_nodes": 2, "backend": "mpijob"},
        "entry.sh nodes.sh dns.sh started.sh mpi.sh session.sh",
    ),
    "hold": ({"hold": "30m"}, "entry.sh hold.sh held.sh"),
    "srun": (
        {"num_nodes": 2, "slurm": "batch"},
        "entry.sh nodes.sh barrier.py started.sh slurm.sh srun.py serve.sh",
    ),
    "variables of Slurm": ({"slurm": "ranks"}, "entry.sh slurm.sh"),
    "sudo": ({"run": "sudo ls\n"}, PROFILE),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_runtime_contains_only_scripts_that_task_runs(name: str) -> None:
    change, scripts = SCRIPTS[name]
    plan = make_plan(replace(HELLO, **change), replace(FACTS, archives=ARCHIVES))
    assert plan.runtime
    assert set(plan.runtime.scripts) == set(scripts.split())
    assert (plan.start, plan.files) == (None, plan.scripts)


def test_runtime_cases_contain_every_script() -> None:
    existing = {path.name for path in assets.folder("runtime").iterdir()}
    others = {"start.sh", "bash.sh", "sudo.sh", "stay.sh", "sshd.sh", "probe.sh"} | RAY
    others |= {"hooks.sh", "callback.sh", "event_callback.sh"}  # of the task
    others |= {"stacks.sh", "flight_recorder.py", "kill.sh"}  # run by exec
    assert existing == {name for _, text in SCRIPTS.values() for name in text.split()} | others


def test_merged_manifests_contain_each_runtime_once() -> None:
    tasks = [replace(HELLO, num_nodes=nodes) for nodes in (2, 3)]
    merged = manifests.merge([manifests.render(make_plan(task)) for task in tasks])
    assert len(merged.shared) == 1
    tasks.append(replace(HELLO, setup="true\n"))
    merged = manifests.merge([manifests.render(make_plan(task)) for task in tasks])
    assert len(merged.shared) == 2
    assert merged.without_runtime.shared == ()


def run_shell(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_start_command_runs_script_and_returns_exit_code(shell: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text('echo "$NODE_RANK $SKYPILOT_NUM_NODES $MASTER_ADDR"; exit 7\n')
    text = (make_plan(HELLO).start or "").replace("/etc/kubectl-sky", str(tmp_path))
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "POD_IP": "10.0.0.1"}
    done = run_shell([*shell.split(), "-c", text], environment)
    assert (done.returncode, done.stdout, done.stderr) == (7, "0 1 10.0.0.1\n", "")


SAVES = "trap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.1; done\n"


@pytest.mark.parametrize("script", ["start.sh", "entry.sh"])
@pytest.mark.parametrize(
    ("run", "code"),
    [(SAVES, 143), ("echo ready\nexit 0\n", 0)],
    ids=["saves", "finished"],
)
def test_node_told_to_stop_never_ends_with_success(
    script: str, run: str, code: int, shell: str, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(run)
    text = assets.read("runtime", script).replace("/etc/kubectl-sky", str(tmp_path))
    (tmp_path / script).write_text(text)
    environment = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "POD_IP": "10.0.0.1",
        "KUBECTL_SKY_FILES": str(tmp_path),
    }
    command = [*shell.split(), str(tmp_path / script)]

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        if code:
            process.terminate()
        assert process.wait(60) == code


def start_with_log(shell: str, run: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start entry.sh of a node that also writes its log to a folder."""
    (folder / "run.sh").write_text(run)
    for script in ("entry.sh", "logs.sh"):
        (folder / script).write_text(assets.read("runtime", script))
    environment = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "POD_IP": "10.0.0.1",
        "KUBECTL_SKY_FILES": str(folder),
        "KUBECTL_SKY_LOGS": str(folder / "volume" / "logs"),
        "SKYPILOT_TASK_ID": "train-bcdf2345",
    }
    command = [*shell.split(), str(folder / "entry.sh")]

    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


COUNT = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); echo line $i; done\n"


@pytest.mark.parametrize(
    ("run", "code", "lines"),
    [
        ("echo out; echo err >&2; printf end; exit 7\n", 7, ["out", "err", "end"]),
        (COUNT, 0, [f"line {number}" for number in range(1, 20001)]),
        ("trap 'echo saved; exit 0' TERM; kill $PPID; while :; do :; done\n", 143, ["saved"]),
    ],
    ids=["streams", "long", "stopped"],
)
def test_log_on_volume_has_every_line_and_node_keeps_exit_code(
    run: str, code: int, lines: list[str], shell: str, tmp_path: Path
) -> None:
    with start_with_log(shell, run, tmp_path) as process:
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == code, printed
    kept = (tmp_path / "volume" / "logs" / "train-bcdf2345" / "node-0.log").read_bytes()
    assert kept == printed
    *written, last = printed.decode().splitlines()
    assert written == lines
    assert re.match(rf"kubectl-sky: exit code {code} at 20\d\d-\d\d-\d\dT[\d:]+Z$", last)


def test_log_on_volume_is_complete_although_a_process_is_left(shell: str, tmp_path: Path) -> None:
    with start_with_log(shell, "sleep 300 & echo $!; exit 3\n", tmp_path) as process:
        assert process.stdout
        left = process.stdout.readline()
        try:
            assert process.wait(60) == 3
        finally:
            os.kill(int(left), signal.SIGKILL)
    kept = (tmp_path / "volume" / "logs" / "train-bcdf2345" / "node-0.log").read_bytes()
    assert kept.startswith(left + b"kubectl-sky: exit code 3 at ")


def test_log_on_volume_of_restarted_node_is_continued(shell: str, tmp_path: Path) -> None:
    for _ in range(2):
        with start_with_log(shell, "echo again\n", tmp_path) as process:
            process.communicate(timeout=60)
    kept = (tmp_path / "volume" / "logs" / "train-bcdf2345" / "node-0.log").read_text()
    assert [line for line in kept.splitlines() if "exit code" not in line] == ["again", "again"]


def test_log_on_volume_that_cannot_be_written_fails_before_run(shell: str, tmp_path: Path) -> None:
    (tmp_path / "volume").write_text("a file, not a folder")
    with start_with_log(shell, "echo never\n", tmp_path) as process:
        printed, _ = process.communicate(timeout=60)
    path = tmp_path / "volume" / "logs" / "train-bcdf2345" / "node-0.log"
    assert (process.returncode, printed.decode()) == (
        1,
        f"kubectl-sky: logs: cannot write to {path}\n",
    )


def start_without_bash(shell: str, folder: Path, task: Task) -> subprocess.CompletedProcess[str]:
    """Start a task where the image has only this shell, by its command or by entry.sh."""
    programs = folder / "bin"
    programs.mkdir()
    for program in ("mkdir", "sleep", "date"):
        (programs / program).symlink_to(shutil.which(program) or "")
    (programs / "sh").symlink_to(shutil.which(shell) or "")
    plan = make_plan(task)
    for name, text in plan.files.items():
        (folder / name).write_text(text)
    text = plan.start or assets.read("runtime", "entry.sh")

    environment = {
        "HOME": str(folder),
        "PATH": str(programs),
        "SKYPILOT_NUM_GPUS_PER_NODE": "0",
        "POD_IP": "10.0.0.1",
        "KUBECTL_SKY_FILES": str(folder),
    }
    (folder / "entry.sh").write_text(text.replace("/etc/kubectl-sky", str(folder)))
    return run_shell([str(programs / "sh"), str(folder / "entry.sh")], environment)


PARTS = "if [[ $SKYPILOT_NODE_RANK == 0 ]]; then echo head; else echo worker; fi\n"


@pytest.mark.parametrize("setup", [None, "true\n"])
@pytest.mark.parametrize(
    ("shell", "run", "output"),
    [
        ("dash", f"echo\n{PARTS}", "the image has no bash, and run uses [[ on line 2"),
        ("dash", "echo kubectl-sky: a\n", "a"),
        pytest.param(
            *("busybox", PARTS, "the image has no bash: its sh runs the scripts\nhead"),
            marks=pytest.mark.tools,
        ),
        pytest.param(
            *("busybox", "a=(1)\n", "the image has no bash, and run uses an array on line 1"),
            marks=pytest.mark.tools,
        ),
    ],
)
def test_script_for_bash_in_image_without_it_fails_unless_sh_knows_it(
    shell: str, run: str, output: str, setup: str | None, tmp_path: Path
) -> None:
    done = start_without_bash(shell, tmp_path, replace(HELLO, run=run, setup=setup))
    lines = [line for line in done.stdout.splitlines() if not re.search("setup (begins|has)", line)]
    assert "\n".join(lines) == f"kubectl-sky: {output}", done.stderr
    assert done.returncode == ("uses" in output)


def test_task_without_run_stays_up_and_is_noted(tmp_path: Path) -> None:
    found = drafted("setup: pip install x\nnum_nodes: 2\n", tmp_path)
    (plan,) = plans(found)
    assert plan.scripts["run.sh"].endswith("exec sleep 2147483647\n")
    assert plan.scripts["setup.sh"] == "pip install x"
    assert plan.annotations[names.INTERACTIVE] == "true"
    notes = decide(found.entries, FACTS, found.settings).notes
    assert "the task has no run: its nodes stay up until it is stopped" in notes


@pytest.mark.parametrize(("text", "stays"), [("run: x\n", False), ("resources: {cpus: 1}\n", True)])
def test_task_without_run_is_interactive(text: str, stays: bool, tmp_path: Path) -> None:
    (plan,) = plans(drafted(text, tmp_path))
    assert (names.INTERACTIVE in plan.annotations) is stays


@pytest.mark.parametrize(
    ("text", "flags"),
    [("setup: a\n---\nrun: b\n", {}), ("setup: a\n", {"array": "0-2"})],
    ids=["pipeline", "array"],
)
def test_task_without_run_before_other_tasks_ends_after_setup(
    tmp_path: Path, text: str, flags: dict[str, str]
) -> None:
    plan = plans(drafted(text, tmp_path, **flags))[0]
    assert plan.scripts["run.sh"] == ":\n"
    assert names.INTERACTIVE not in plan.annotations


def test_keep_running_script_prints_ready_and_stops_on_sigterm() -> None:
    script = keep_running(Task()).run
    with subprocess.Popen(["sh", "-c", script or ""], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().rstrip() == READY
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("setup", "run", "calls"),
    [("true", "sudo ls\n", True), ("A=1 sudo -E apt-get update", "x", True), ("true", "id", False)],
)
def test_runtime_includes_sudo_for_script_that_calls_it(setup: str, run: str, calls: bool) -> None:
    assert ("sudo.sh" in make_plan(replace(make_task(), setup=setup, run=run)).scripts) is calls


RAY = {"ray.sh", "ray_start_cluster.sh", "ray_stop_cluster.sh"}


@pytest.mark.parametrize(
    ("setup", "run", "scripts"),
    [
        ("true", "~/sky_templates/ray/start_cluster\n", RAY),
        ("ls $HOME/sky_templates", "x", RAY),
        ("pip install ray", "ray start --head", set()),
    ],
)
def test_runtime_includes_ray_scripts_for_script_that_names_their_folder(
    setup: str, run: str, scripts: set[str]
) -> None:
    plan = make_plan(replace(make_task(), setup=setup, run=run))
    assert RAY & plan.scripts.keys() == scripts
    assert plan.shared_memory is bool(scripts), "Ray's object store is in /dev/shm"


_STATUS = "Active:\\n 1 node_a\\nPending:\\n (no pending nodes)\\nTotal Usage:\\n 0.0/2.0 CPU\\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("installer", ["uv", "python3"])
def test_ray_is_installed_by_start_cluster_as_by_skypilot(
    shell: str, installer: str, tmp_path: Path
) -> None:
    for name in ("sh", "head", "date", "cat", "grep", "chmod", "sleep"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    ray = f'#!/bin/sh\ncase $1 in status) printf "{_STATUS}" ;; *) echo "$@" ;; esac\n'
    program = tmp_path / installer
    program.write_text(
        f"#!/bin/sh\ncat > {tmp_path}/ray << 'END'\n{ray}END\nchmod +x {tmp_path}/ray\n"
    )
    program.chmod(0o755)
    script = tmp_path / "start_cluster"
    script.write_text(assets.read("runtime", "ray_start_cluster.sh"))
    environ = {"PATH": str(tmp_path), "SKYPILOT_NODE_IPS": "10.0.0.1", "RAY_HEAD_PORT": "6385"}

    done = run_shell([str(shutil.which(shell)), str(script)], environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "kubectl-sky: installing Ray, because setup has not",
        "--version",
        "start --head --port=6385 --dashboard-port=8265 --dashboard-host=127.0.0.1"
        " --disable-usage-stats --dashboard-agent-listen-port=52366",
        "kubectl-sky: the Ray cluster is up: 1 of 1 nodes",
    ]


CALLS = {
    "sudo echo a b": (0, "a b"),
    "sudo -E -n A=1 sh -c 'echo $A $B'": (0, "1 2"),
    "sudo -u root echo x": (0, "x"),
    "echo x | xargs sudo echo": (0, "x"),
    "sudo false": (1, ""),
    "sudo nosuchprogram": (127, ""),
    "sudo -u nobody id": (1, ""),
    "sudo -i": (1, ""),
    "sudo": (1, ""),
}


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.skipif(os.getuid() != 0, reason="only root gets a sudo")
def test_sudo_runs_command_in_every_shell(command: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"  # an image without sudo
    programs.mkdir()
    for name in ("sh", "id", "mkdir", "cat", "chmod", "env", "xargs", "echo", "false"):
        (programs / name).symlink_to(str(shutil.which(name)))
    part = tmp_path / "sudo.sh"
    part.write_text(assets.read("runtime", "sudo.sh"))
    environ = {"PATH": str(programs), "KUBECTL_SKY_FILES": str(tmp_path / "room"), "B": "2"}
    script = f". {part}; . {part}; {command}"
    done = run_shell(["/bin/sh", "-c", script], environ)
    assert (done.returncode, done.stdout.strip()) == CALLS[command]


@pytest.mark.skipif(os.getuid() != 0, reason="only root gets a sudo")
def test_sudo_of_image_is_used(tmp_path: Path) -> None:
    part = tmp_path / "sudo.sh"
    part.write_text(f"sudo() {{ echo image; }}\n{assets.read('runtime', 'sudo.sh')}sudo x\n")
    environ = {"PATH": os.environ["PATH"], "KUBECTL_SKY_FILES": str(tmp_path / "room")}
    done = run_shell(["/bin/sh", str(part)], environ)
    assert (done.stdout, (tmp_path / "room").exists()) == ("image\n", False)


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        ("echo told $JOB_STATUS", "kubectl-sky: event_callback: told FAILED\n"),
        ("exit 4", "kubectl-sky: event_callback of FAILED failed with exit code 4\n"),
        ("sleep 100", "kubectl-sky: event_callback of FAILED was killed after 30 seconds\n"),
    ],
)
def test_event_callback_has_a_time_limit_and_changes_no_result(
    tmp_path: Path, callback: str, said: str
) -> None:
    script = assets.read("runtime", "callback.sh").replace("sleep 30", "sleep 1")
    (tmp_path / "callback.sh").write_text(script)
    (tmp_path / "event_callback.sh").write_text(callback)
    start = 'NODE_RANK=0 stopping= shell=sh; say() { echo "kubectl-sky: $*"; }'
    command = f"{start}; dir={tmp_path}; . $dir/callback.sh; code=7; report FAILED; exit 5"
    environ = {"PATH": os.environ["PATH"], "KUBECTL_SKY_FILES": str(tmp_path)}
    done = run_shell(["sh", "-c", command], environ)
    assert (done.returncode, done.stdout) == (5, said), done.stderr


def test_only_a_program_that_runs_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = assets.read("runtime", "kill.sh").replace("/dev/termination-log", str(log))
    command = ["sh", "-c", script, "sh", "rank 1 hangs"]
    environment = {"PATH": os.environ["PATH"], "KUBECTL_SKY_FILES": str(tmp_path)}
    assert run_shell(command, environment).stdout == ""

    with subprocess.Popen(["sleep", "100"], start_new_session=True) as program:
        (tmp_path / "running").write_text(f"{program.pid}\n")
        assert run_shell(command, environment).stdout == "killed\n"
        assert program.wait(timeout=20) == -signal.SIGKILL
    assert log.read_text() == "hung: rank 1 hangs\n"

    log.unlink()
    assert run_shell(command, environment).stdout == "", "it has ended"
    assert not log.exists()
