"""`dev` over a cluster in memory: what it submits, refuses and prints."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cluster import exec as executing
from kubectl_sky.dev import action, model
from kubectl_sky.errors import UserError
from kubectl_sky.words import kinds
from kubectl_sky.words.settings import settings_file
from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPMZdTfCNvSR3v8MgrcOaMspZ1X5J7KcZBzDPvuFkqs"
ANSWER = f"root\n{HOST_KEY} root@pod\n".encode()
DETACHED = ("--detach", "--id", ID)


def job(api: FakeCluster, name: str = "dev") -> dict[str, Any]:
    return api.get(kinds.JOB, f"{name}-{ID}")


def container(api: FakeCluster, name: str = "dev") -> dict[str, Any]:
    (main,) = job(api, name)["spec"]["template"]["spec"]["containers"]
    return dict(main)


def start(api: FakeCluster, name: str) -> None:
    ready = b"kubectl-sky: this node is ready and runs until the task is stopped\n"
    api.log(api.start(name), ready)


@pytest.mark.parametrize("words", [("dev",), ("dev", "up")], ids=["default", "up"])
def test_dev_without_file_submits_pod_with_flags(
    api: FakeCluster, run: Run, words: tuple[str, ...]
) -> None:
    code, out, err = run(*words, "--cpus", "2", "--image", "busybox:1.36", *DETACHED)
    assert (code, out) == (0, f"task/{ID} submitted: dev, 1 node in namespace default\n"), err
    assert container(api)["image"] == "busybox:1.36"
    assert container(api)["resources"]["requests"]["cpu"] == "2"
    assert job(api)["metadata"]["annotations"]["kubectl-sky/interactive"] == "true"


def test_dev_prints_how_to_use_and_stop_pod(api: FakeCluster, run: Run) -> None:
    _, _, err = run("dev", *DETACHED)
    for command in (
        f"kubectl sky exec {ID} -it -- bash",
        f"kubectl sky cp FILE {ID}:",
        f"kubectl sky port-forward {ID} 8888",
        f"kubectl sky dev ssh-config {ID} --install",
        f"kubectl sky stop {ID}",
    ):
        assert f'"{command}"' in err
    assert "stays up until it is stopped" in err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), "lifetime=28800 idle=3600\n"),
        (("--for", "1h"), "lifetime=3600 idle=3600\n"),
        (("--idle", "0"), "lifetime=28800 idle=0\n"),
    ],
)
def test_dev_limits_of_settings_apply_without_flags(
    api: FakeCluster, run: Run, flags: tuple[str, ...], expected: str
) -> None:
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text("dev: {for: 28800, idle: 3600}\n")
    assert run("dev", *flags, *DETACHED)[0] == 0
    assert api.get(kinds.CONFIG_MAP, f"dev-{ID}")["data"]["run.sh"].startswith(expected)


def test_dev_of_file_runs_setup_without_run(api: FakeCluster, run: Run) -> None:
    Path("task.yaml").write_text(
        "name: train\nnum_nodes: 2\nsetup: pip install x\nrun: python train.py\nenvs: {A: 1}\n"
    )
    code, _, err = run("dev", "task.yaml", "--env", "A=2", *DETACHED)
    assert code == 0, err
    data = api.get(kinds.CONFIG_MAP, f"train-dev-{ID}")["data"]
    assert data["setup.sh"] == "pip install x"
    assert "train.py" not in data["run.sh"]
    assert {"name": "A", "value": "2"} in container(api, "train-dev")["env"]
    assert "run: ignored by dev" in err
    assert "num_nodes: ignored by dev" in err
    assert sum(name.startswith("jobs ") for name in api.names()) == 1


def test_dev_of_batch_script_with_dependency_does_not_wait(api: FakeCluster, run: Run) -> None:
    Path("eval.sbatch").write_text("#!/bin/bash\n#SBATCH -J eval -d afterok:train\necho\n")
    code, _, err = run("dev", "up", "eval.sbatch", *DETACHED)
    assert code == 0, err
    assert not job(api, "eval-dev")["spec"].get("suspend")
    assert "has succeeded" not in err


def test_dev_follows_until_pod_is_ready(api: FakeCluster, run: Run) -> None:
    api.after("create jobs", lambda: start(api, f"dev-{ID}"))
    code, out, err = run("dev", "--id", ID, "--idle", "1h")
    assert code == 0, err
    assert "this node is ready" in out
    assert "dev ssh-config" in err


def test_dev_dry_run_prints_objects_and_no_hints(api: FakeCluster, run: Run) -> None:
    code, out, err = run("dev", "--dry-run", "--id", ID, "-o", "json")
    assert code == 0
    assert any(item["kind"] == "Job" for item in json.loads(out)["items"])
    assert "ssh-config" not in err
    assert api.writes == []


def test_dev_json_prints_result_only(api: FakeCluster, run: Run) -> None:
    code, out, err = run("dev", "--id", ID, "-o", "json")
    assert (code, json.loads(out)["task_id"]) == (0, ID)
    assert "ssh-config" not in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--for", "30s"), "--for: expected 1m or more, or 0 for no limit"),
        (("--for", "soon"), "is not a duration"),
        (("--array", "0-3"), "no such option '--array'"),
        (("--gpus", "A100:x"), "the count must be a number"),
    ],
)
def test_dev_wrong_flag_is_refused(
    api: FakeCluster, run: Run, flags: tuple[str, ...], message: str
) -> None:
    code, _, err = run("dev", *flags)
    assert code == 2
    assert message in err
    assert api.writes == []


def test_dev_of_pipeline_is_refused(api: FakeCluster, run: Run) -> None:
    Path("task.yaml").write_text("name: both\n---\nrun: a\n---\nrun: b\n")
    code, _, err = run("dev", "task.yaml")
    assert (code, api.writes) == (2, [])
    assert "a development pod is one task, and the file has 2" in err


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a public key."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text(f"{KEY} ann@laptop of $(ann)\n")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def pod(api: FakeCluster, run: Run, home: Path) -> FakeCluster:
    """A cluster with a development pod."""
    assert run("dev", *DETACHED)[0] == 0
    api.start(f"dev-{ID}")
    return api


Answer = Callable[..., list[executing.Program]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Let programs in the pod end so; return the list of them."""

    def answer(code: int, out: bytes = b"", err: bytes = b"") -> list[executing.Program]:
        programs: list[executing.Program] = []

        def fake(session: object, program: executing.Program, pipes: executing.Pipes) -> int:
            programs.append(program)
            pipes.stdout(out)
            pipes.stderr(err)
            return code

        monkeypatch.setattr(executing, "run", fake)  # of `exec`
        monkeypatch.setattr(action, "run", fake)
        return programs

    return answer


def words_of(line: str) -> list[str]:
    """Return the words of the ProxyCommand after its program."""
    words = shlex.split(line.replace("%%", "%"))
    return words[words.index("exec") :]


def test_ssh_config_goes_through_exec_with_key_and_pins_host_key(
    pod: FakeCluster, run: Run, home: Path, answer: Answer
) -> None:
    programs = answer(0, ANSWER)
    code, out, _ = run("dev", "ssh-config", "dev", "--context", "50%")
    assert code == 0

    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "Host dev"
    assert "User root" in lines
    assert f'IdentityFile "{home}/.ssh/id_ed25519"' in lines
    assert "ForwardAgent no" in lines

    (proxy,) = [line for line in lines if line.startswith("ProxyCommand ")]
    assert re.search(r"(?<!%)%(?!%)", proxy.replace("%%", "")) is None

    words = words_of(proxy)
    assert words[:4] == ["exec", ID, "--namespace", "default"]
    assert words[words.index("--context") + 1] == "50%"
    assert words[words.index("-i") :] == [
        *("-i", "-q", "--", "/bin/sh", "/etc/kubectl-sky/sshd.sh", *KEY.split())
    ]
    assert programs[0].command[-1] == "/etc/kubectl-sky/sshd.sh"
    assert programs[0].pod == f"dev-{ID}-0"

    known_hosts = home / ".ssh" / "kubectl-sky" / "dev.known_hosts"
    assert known_hosts.read_text() == f"{ID} {HOST_KEY}\n"
    assert f'UserKnownHostsFile "{known_hosts}"' in lines
    assert f"HostKeyAlias {ID}" in lines
    assert "StrictHostKeyChecking yes" in lines


def test_ssh_config_fixes_current_context_and_kubeconfig(
    pod: FakeCluster, run: Run, home: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(0, ANSWER)
    monkeypatch.setenv("KUBECONFIG", "some/config")
    _, out, _ = run("dev", "ssh-config", "dev")
    words = words_of(out)
    assert words[words.index("--context") + 1]
    assert words[words.index("--kubeconfig") + 1] == str(Path("some/config").absolute())
    monkeypatch.setenv("KUBECONFIG", "a:b")
    assert "--kubeconfig" not in run("dev", "ssh-config", "dev")[1]


def test_ssh_config_install_includes_entry_once_and_keeps_config(
    pod: FakeCluster, run: Run, home: Path, answer: Answer
) -> None:
    answer(0, ANSWER)
    config = home / ".ssh" / "config"
    dotfiles = home / "dotfiles"
    assert run("dev", "ssh-config", "dev", "--install")[0] == 0
    assert config.read_text() == "Include kubectl-sky/*.config\n\n", "it is created"

    config.unlink()
    dotfiles.write_bytes(b"Host *\n  User \xff\n")
    config.symlink_to(dotfiles)
    for _ in range(2):
        code, out, err = run("dev", "ssh-config", "dev", "--install")
        assert code == 0, err
    entry = home / ".ssh" / "kubectl-sky" / "dev.config"
    assert out == f"{entry} written\n"
    assert entry.read_text().startswith("Host dev\n")
    assert entry.stat().st_mode & 0o077 == 0

    expected = b"Include kubectl-sky/*.config\n\nHost *\n  User \xff\n"
    assert config.is_symlink()
    assert dotfiles.read_bytes() == expected


def test_ssh_config_folder_that_is_a_file_is_error(
    pod: FakeCluster, run: Run, home: Path, answer: Answer
) -> None:
    answer(0, ANSWER)
    (home / ".ssh" / "kubectl-sky").touch()
    code, out, err = run("dev", "ssh-config", "dev", "--install")
    assert (code, out) == (2, "")
    assert "kubectl-sky/dev.known_hosts: not a directory" in err


@pytest.mark.parametrize("path", ['a"b', "${HOME}/x", "a\nProxyCommand evil"])
def test_entry_path_that_ssh_would_expand_is_refused(tmp_path: Path, path: str) -> None:
    login = model.SshLogin("root", HOST_KEY)
    key = model.PublicKey(KEY, path)
    with pytest.raises(UserError, match="ssh cannot read a path"):
        model.SshHost("dev", ID, login, key).entry(["kubectl"], tmp_path / "x")


def test_ssh_config_proxy_command_is_accepted_by_exec(
    pod: FakeCluster, run: Run, home: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = answer(0, ANSWER)
    _, out, _ = run("dev", "ssh-config")
    (proxy,) = [line for line in out.splitlines() if "ProxyCommand" in line]
    monkeypatch.setattr("kubectl_sky.cli.exec._read_stdin", lambda: iter(()))
    code, _, err = run(*words_of(proxy))
    assert (code, err) == (0, "")
    assert programs[-1].command[-4:] == ["/bin/sh", "/etc/kubectl-sky/sshd.sh", *KEY.split()]


def test_ssh_config_keeps_rights_and_tls_of_connection_options_but_no_token(
    pod: FakeCluster, run: Run, answer: Answer
) -> None:
    answer(0, ANSWER)
    flags = ["--as", "system:admin", "--as-group", "a b", "--as-group", "c"]
    pod.tokens["hunter2"] = "alice"
    token = ("--token", "hunter2")
    _, out, err = run("dev", "ssh-config", ID, *token, *flags, "--insecure-skip-tls-verify")
    assert "hunter2" not in out
    words = words_of(out)
    given = words[words.index("--as") : words.index("-i")]
    assert given == [*flags, "--insecure-skip-tls-verify"], err


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((64, b"", b""), f"task {ID} is not a development pod"),
        (
            (1, b"", b"the image has no sshd\n"),
            f"ssh cannot reach task {ID}: the image has no sshd",
        ),
        ((127, b"", b""), "exit code 127"),
        ((1, b"", b"\x1b[2J\x1b]0;x\x07evil\n"), f"ssh cannot reach task {ID}"),
        ((0, b"", b""), "it has no valid user name and host key"),
        ((0, b"root\n", b""), "it has no valid user name and host key"),
        ((0, ANSWER.replace(b"root", b"root ProxyCommand=evil", 1), b""), "no valid user name"),
        ((0, ANSWER.replace(b"root", b"$(reboot)", 1), b""), "no valid user name"),
        ((0, b"\x1b[2J" + ANSWER, b""), "no valid user name"),
        ((0, ANSWER + b"* ssh-ed25519 AAAA\n", b""), "no valid user name"),
        ((0, ANSWER.replace(b"AAAA", b"@\nA"), b""), "no valid user name"),
        ((0, b"root\n" * 1000, b""), "no valid user name"),
    ],
)
def test_ssh_config_of_pod_without_ssh_is_error(
    pod: FakeCluster, run: Run, answer: Answer, result: tuple[int, bytes, bytes], message: str
) -> None:
    answer(*result)
    code, out, err = run("dev", "ssh-config", "dev")
    assert (code, out) == (2, "")
    assert message in err
    assert "\x1b" not in err


def test_ssh_config_without_public_key_is_error(run: Run, home: Path) -> None:
    (home / ".ssh" / "id_ed25519.pub").unlink()
    code, _, err = run("dev", "ssh-config", "dev")
    assert code == 2
    assert 'create one: run "ssh-keygen -t ed25519"' in err


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n",
        "",
        "ssh-ed25519\n",
        f"{KEY}\n{KEY}\n",
        f'command="x" {KEY}\n',
        "ssh-ed25519 A$(id)\n",
        "ssh-ed25519 AAAA'\n",
    ],
)
def test_public_key_of_other_file_is_refused_without_its_content(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.pub").write_text(text)
    with pytest.raises(UserError, match="is not a public key") as caught:
        action.public_key(str(tmp_path / "key.pub"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (KEY, " ann\r\n"),
        (KEY, "\r\n"),
        (KEY, "\n"),
        ("ssh-rsa AAAA+/==", " ann's key\n"),
        ("ecdsa-sha2-nistp256 AAAA+/==", " ann's key\n"),
        ("sk-ssh-ed25519@openssh.com AAAA+/==", " ann's key\n"),
    ],
)
def test_public_key_is_read_without_comment_and_with_absolute_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key.pub").write_bytes(f"{text}{end}".encode())
    assert action.public_key("key.pub") == model.PublicKey(text, str(tmp_path / "key"))


@pytest.mark.parametrize(
    ("reference", "alias"), [("train", "train"), ("task/x", ID), ("*", ID), ("a b", ID), ("-x", ID)]
)
def test_alias_is_reference_if_ssh_accepts_it(reference: str, alias: str) -> None:
    assert model.alias_of(reference, ID) == alias


@pytest.mark.parametrize(
    "words",
    [
        ("-n", "default", "ssh-config", "none"),
        ("-q", "--namespace=default", "ssh-config", "none"),
        ("ssh-config", "none", "-n", "default"),
    ],
)
def test_dev_flags_before_command_are_those_of_command(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA me\n")
    code, _, err = run("dev", *words, "--public-key", str(tmp_path / "key.pub"))
    assert (code, err.splitlines()[0][:30]) == (2, 'error: task "none" not found i')


@pytest.mark.parametrize("words", [("-n", "default", "--dry-run"), ("--dry-run",)])
def test_dev_without_command_is_up(run: Run, words: tuple[str, ...]) -> None:
    code, out, _ = run("dev", *words, "-o", "name")
    assert (code, out.count("job/")) == (0, 1)


def names_of_jobs(api: FakeCluster) -> list[str]:
    return [name for name in api.names() if name.startswith("jobs ")]


def test_dev_twice_keeps_the_pod_of_this_name(api: FakeCluster, run: Run) -> None:
    run("dev", "--detach")
    (job_name,) = names_of_jobs(api)
    start(api, job_name.split()[1])
    code, out, err = run("dev", "--cpus", "2")
    task_id = job_name.rpartition("-")[2]
    assert (code, out) == (0, f"task/{task_id} unchanged: dev, 1 node in namespace default\n")
    assert "--new makes another pod" in err and f"exec {task_id} -it -- bash" in err
    assert names_of_jobs(api) == [job_name]
    document = json.loads(run("dev", "-o", "json")[1])
    assert (document["task_id"], document["status"]) == (task_id, "unchanged")


def test_dev_twice_on_a_terminal_opens_a_shell_in_the_pod(
    api: FakeCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("dev", "--detach")
    (job_name,) = names_of_jobs(api)
    start(api, job_name.split()[1])
    entered: list[str] = []

    def enter(session: Any, task: Any, program: Any) -> int:
        entered.append(task.id)
        return 7

    monkeypatch.setattr("kubectl_sky.cli.dev.enter", enter)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    assert run("dev")[0] == 7
    assert entered == [job_name.rpartition("-")[2]]


@pytest.mark.parametrize("end", ["other", "new", "finished"])
def test_dev_twice_submits_another_pod_if_there_is_none_to_enter(
    api: FakeCluster, run: Run, end: str
) -> None:
    name_flags = ("--name", "other") if end == "other" else ()
    new_flags = ("--new",) if end == "new" else ()
    run("dev", "--detach", *name_flags)
    (job_name,) = names_of_jobs(api)
    start(api, job_name.split()[1])
    if end == "finished":
        api.finish(job_name.split()[1])
    assert run("dev", "--detach", *new_flags)[0] == 0
    assert len(names_of_jobs(api)) == 2
