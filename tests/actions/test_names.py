"""Which task a command means: by id, name or prefix, or the last one."""

import re
import sys

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words.owners import name_owner
from tests import fake_cluster
from tests.actions.conftest import Run, Submitter
from tests.fake_cluster import FakeCluster

OLD = "bcdf2345"
NEW = "bcdg6789"
LAST = "qwrt2345"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"


@pytest.fixture(autouse=True)
def tasks(send: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks named train, and a later one named eval."""
    for minute, (name, task_id) in enumerate((("train", OLD), ("train", NEW), ("eval", LAST))):
        monkeypatch.setattr(fake_cluster, "_now", lambda minute=minute: _time(minute))
        send(f"name: {name}\nrun: 'true'\n", task_id=task_id)


def _time(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let stdin be a terminal; the list has the answers that the user types."""
    answers: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: answers.pop(0))
    return answers


def jobs(api: FakeCluster) -> set[str]:
    return {name.rpartition("-")[2] for name in api.names() if name.startswith("jobs ")}


def test_name_of_several_tasks_is_newest_with_note(run: Run) -> None:
    code, out, err = run("status", "train", "-o", "name")
    assert (code, out) == (0, f"task/{NEW}\n")
    assert err == f"train: newest of 2 ({NEW})\n"
    assert run("status", "eval", "-o", "name") == (0, f"task/{LAST}\n", "")


@pytest.mark.parametrize("arguments", [("status", "-o", "name"), ("logs",), ("top",), ("ports",)])
def test_command_without_task_means_last_task_with_note(
    run: Run, arguments: tuple[str, ...]
) -> None:
    assert run(*arguments)[2].startswith(f"last task: {LAST} (eval)\n")


def test_last_task_of_other_user_is_not_mine(run: Run, api: FakeCluster) -> None:
    api.user = "bob"
    code, _, err = run("status")
    assert code == 2
    assert 'no tasks found in namespace "default" (owner: bob)' in err


def test_last_task_may_be_pipeline(
    run: Run, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_cluster, "_now", lambda: _time(9))
    send(PIPELINE, task_id="pppp2345")
    assert run("status", "-o", "name")[1] == "pipeline/pppp2345\n"


def test_wait_without_task_waits_for_last_task(run: Run, api: FakeCluster) -> None:
    api.start(f"eval-{LAST}")
    api.finish(f"eval-{LAST}", 3)
    code, out, _ = run("wait")
    assert (code, out.split()[0]) == (4, f"task/{LAST}")


def test_exec_and_port_forward_without_task_mean_last_task(run: Run, api: FakeCluster) -> None:
    api.start(f"eval-{LAST}")
    api.finish(f"eval-{LAST}")
    for arguments in (("exec", "--", "ls", "-l"), ("port-forward", "8888")):
        code, _, err = run(*arguments)
        assert code == 2, err
        assert err.startswith(f"last task: {LAST} (eval)\n")  # its node has finished
    assert "missing argument '-- CMD...'" in run("exec", "eval")[2]
    assert "missing argument '[LOCAL:]REMOTE...'" in run("port-forward")[2]
    assert '"eval" is not a port' in run("port-forward", "eval")[2]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("eval/node-0", 'did you mean "eval"? for one node, `kubectl sky logs eval --rank 0`'),
        ("eval-node-1", 'did you mean "eval"? for one node, `kubectl sky logs eval --rank 1`'),
        ("eval,eval", "separate tasks with spaces: eval eval"),
        ("eval/", 'did you mean "eval"?'),
    ],
)
def test_name_of_a_node_or_several_tasks_is_answered(run: Run, text: str, hint: str) -> None:
    code, _, err = run("status", text)
    assert (code, err.splitlines()[-1]) == (2, f"hint: {hint}")


@pytest.mark.parametrize("text", ["b", "bc", "q", ""])
def test_prefix_shorter_than_three_characters_is_not_found(run: Run, text: str) -> None:
    code, _, err = run("status", text)
    assert code == 2
    assert f'task "{text}" not found' in err


def test_exact_name_wins_over_prefix_of_id(run: Run, send: Submitter) -> None:
    send("name: bcdf\nrun: 'true'\n", task_id="zzzz2345")
    assert run("status", "bcdf", "-o", "name")[1] == "task/zzzz2345\n"
    assert run("status", "bcdf2", "-o", "name")[1] == f"task/{OLD}\n"


def test_id_of_other_user_does_not_hide_name(run: Run, api: FakeCluster, send: Submitter) -> None:
    send("name: pretrain\nrun: 'true'\n", task_id="zzzz2345")
    api.user = "bob"
    send("name: other\nrun: 'true'\n", task_id="pretrain")
    assert run("status", "pretrain", "-o", "name")[1] == "task/pretrain\n"
    api.user = "alice"
    assert run("status", "pretrain", "-o", "name")[1] == "task/zzzz2345\n"
    api.user = "carol"
    assert 'task "pretrain" belongs to bob' in run("status", "pretrain")[2]


def test_library_and_server_refuse_ambiguous_name(api: FakeCluster) -> None:
    with pytest.raises(UserError, match='"train" matches 2 tasks'):
        find.get(api.session(), Scope("default", name_owner("alice")), "train")


def test_stop_name_of_several_tasks_is_refused_without_terminal(run: Run, api: FakeCluster) -> None:
    code, _, err = run("stop", "train")
    assert code == 2
    assert NEW in err
    assert OLD in err
    assert "confirm with --yes, or use an id" in err
    assert jobs(api) == {OLD, NEW, LAST}


def test_stop_name_of_several_tasks_with_yes_stops_all(run: Run, api: FakeCluster) -> None:
    assert run("stop", "train", "-y")[0] == 0
    assert jobs(api) == {LAST}


def test_stop_asks_on_terminal_and_says_what_it_deletes(
    run: Run, api: FakeCluster, terminal: list[str]
) -> None:
    terminal += ["n", "y"]
    assert run("stop", "train")[0] == 2
    assert jobs(api) == {OLD, NEW, LAST}
    code, _, err = run("stop", "train")
    assert code == 0
    assert re.search(rf"Deleting task/{OLD} \(train\), \S+ old, with its logs", err)
    assert jobs(api) == {LAST}


def test_stop_without_task_asks_for_last_task_on_terminal(
    run: Run, api: FakeCluster, terminal: list[str]
) -> None:
    terminal += ["y"]
    assert run("stop")[0] == 0
    assert jobs(api) == {OLD, NEW}


def test_list_without_home_directory_works(
    run: Run, api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "KUBECTL_SKY_CACHE_HOME", "KUBECTL_SKY_STATE_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    code, out, err = run("list")
    assert code == 0, err
    assert OLD in out


@pytest.mark.parametrize("command", [("stop",), ("logs",), ("exec", "--", "id")])
def test_last_task_of_all_users_is_refused(
    run: Run, api: FakeCluster, terminal: list[str], command: tuple[str, ...]
) -> None:
    terminal += ["y"]
    api.user = "bob"
    name, *rest = command
    code, _, err = run(name, "--all-users", *rest)
    assert code == 2
    assert "no TASK given" in err
    assert jobs(api) == {OLD, NEW, LAST}


def test_stop_of_other_users_names_owners(
    run: Run, api: FakeCluster, terminal: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []

    def refuse(prompt: str) -> str:
        prompts.append(prompt)
        return terminal.pop(0)

    terminal += ["n", "n"]
    monkeypatch.setattr("click.termui.visible_prompt_func", refuse)
    api.user = "bob"
    rows = run("stop", "train", "--all-users")[2]
    assert re.search(rf'task/{OLD} \(train\) of user "alice",', rows)
    assert run("stop", "--user", "alice")[0] == 2
    assert f'Stop the last task, task/{LAST} (eval) of user "alice"' in prompts[-1]
    assert jobs(api) == {OLD, NEW, LAST}


def test_library_and_server_have_no_last_task(api: FakeCluster) -> None:
    with pytest.raises(UserError, match="no TASK given"):
        find.get(api.session(), Scope("default", name_owner("alice")), None)


@pytest.mark.parametrize("arguments", [(), ("-y",), ("",), ("", "-y")])
def test_stop_without_task_is_refused_without_terminal(
    run: Run, api: FakeCluster, arguments: tuple[str, ...]
) -> None:
    assert run("stop", *arguments)[0] == 2
    assert jobs(api) == {OLD, NEW, LAST}
