"""Simulations of a queue with and without fair share, and the commands that show them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubectl_sky.cli.main import sky
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.fairshare import action
from kubectl_sky.fairshare.action import ClassStatus
from kubectl_sky.fairshare.model_policy import Curve, Policy
from kubectl_sky.fairshare.model_state import RECOVERS
from kubectl_sky.fairshare.simulate import (
    Job,
    generate,
    read_trace,
    simulate,
)
from tests.cluster import cache
from tests.fairshare.fair_share import ALICE, World


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(sky, ["fairshare", *arguments], prog_name="kubectl sky")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("curve", Curve)
def test_simulation_of_unequal_users_is_within_5_percent_with_policy_only(
    seed: int, curve: Curve
) -> None:
    jobs = generate(users=3, jobs=1000, slots=10, seed=seed)
    fair = simulate(jobs, 10, Policy(curve, recovery_interval=7200))
    assert fair.deviation <= 0.05, fair.contended
    assert fair.contended_seconds > 20_000
    assert simulate(jobs, 10, None).deviation > 0.5


def test_simulation_by_hand_shares_as_expected() -> None:
    jobs = [Job("a", 0, 10)] * 4 + [Job("b", 0, 10)] * 2
    without = simulate(jobs, 1, None)
    assert without.waits == {"a": 15.0, "b": 45.0}
    assert without.end == 60
    assert without.contended == {"a": 1.0, "b": 0.0}, "until the last job of a starts"
    fair = simulate(jobs, 1, Policy())
    assert fair.waits == {"a": (0 + 20 + 40 + 50) / 4, "b": 20.0}
    assert fair.contended == {"a": 2 / 3, "b": 1 / 3}
    assert [period["a"] for period in fair.over_time] == [1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1]


def test_simulation_recovery_forgets_old_jobs_of_idle_user() -> None:
    old = [Job("a", 0, 1)] * 5
    jobs = [*old, *(Job(user, 100_000, 100) for user in "ab" * 4)]
    policy = Policy(recovery_interval=600)
    assert simulate(jobs, 1, policy).waits["a"] < simulate(jobs, 1, policy).waits["b"]
    slow = Policy(recovery_interval=10**6)
    assert simulate(jobs, 1, slow).waits["b"] < simulate(jobs, 1, slow).waits["a"]


TRACE = [
    {"user": "b", "submitted": 5, "seconds": 7},
    {"user": "a", "submitted": 0, "seconds": 3},
]


def test_trace_csv_and_json_are_read_alike() -> None:
    text = "seconds,user,submitted\n7,b,5\n3,a,0\n"
    expected = [Job("a", 0, 3), Job("b", 5, 7)]
    assert read_trace(text, "f") == read_trace(json.dumps(TRACE), "f") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[1]",
        "[" * 100_000,
        '[{"user": "a", "submitted": 1e999, "seconds": 1}]',
        '[{"user": "a", "submitted": -1, "seconds": 1}]',
        '[{"user": "a", "submitted": 1, "seconds": null}]',
        "user,submitted,seconds\na,1\n",
        "user,submitted\na,1\n",
        "user,submitted,seconds\na,b,c\n",
    ],
)
def test_trace_invalid_is_user_error(text: str) -> None:
    with pytest.raises(UserError, match=r"^f: "):
        read_trace(text, "f")


def test_simulate_prints_shares_with_and_without_policy() -> None:
    done = invoke("simulate", "--jobs", "200")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].split() == ["TIME", "WITH", "LINEAR", "TIME", "WITHOUT"]
    assert lines[1].split()[1].startswith("#########")
    assert "# user-1, = user-2, . user-3" in lines
    assert "\x1b" not in done.output


def test_simulate_json_has_shares_of_trace(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text(json.dumps(TRACE))
    done = invoke("simulate", "--trace", str(tmp_path / "jobs.json"), "-o", "json")
    values = json.loads(done.output)
    assert values["policy"] == "linear"
    assert values["fair"]["deviation"] == 0.0
    assert values["without"]["waits"] == values["fair"]["waits"] == {"a": 0.0, "b": 0.0}


def test_simulate_users_without_waiting_jobs_have_no_shares(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text('user,submitted,seconds\na,0,3\n"b\x1b[31m\nc",9,3\n')
    done = invoke("simulate", "--trace", str(tmp_path / "jobs.csv"))
    assert "There are no shares: " in done.output
    assert "# a, = b c\n" in done.output


@pytest.mark.tools  # matplotlib
def test_simulate_plot_is_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", str(cache.ROOT / "matplotlib"))  # its fonts, 4 s
    path = tmp_path / "shares.png"
    assert invoke("simulate", "--jobs", "50", "--plot", str(path)).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    done = invoke("simulate", "--jobs", "50", "--plot", str(tmp_path / "none" / "a.png"))
    assert "cannot write" in str(done.exception)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--queue", "gpu"), 'queue "gpu" has no fair share in the settings'),
        (("--base", "5"), "floor 1000 and base 5 are not allowed"),
        (("--trace", "/nowhere"), "cannot read /nowhere: no such file or directory"),
        (("--trace", "/"), "cannot read /: is a directory"),
        (("--percent", "5"), "--percent has no effect with the policy linear"),
        (
            ("--policy", "half-life", "--recovery-step", "2"),
            "--recovery-step has no effect with the policy half-life",
        ),
    ],
)
def test_simulate_wrong_flag_is_user_error(
    flags: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    done = invoke("simulate", *flags)
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)


def test_simulate_queue_takes_policy_of_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    (tmp_path / "settings.yaml").write_text("fair_share: {gpu: {policy: half-life}}")
    done = invoke("simulate", "--queue", "gpu", "--jobs", "9", "-o", "jsonpath={.policy}")
    assert done.output == "half-life\n", done.exception


def test_status_lists_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    session = world.cluster.session()
    monkeypatch.setattr(Session, "connect", lambda *_: session)
    assert "No PriorityClasses of fair share found" in invoke("status").output
    world.now = 4_000_000_000.0
    world.group("a", "Running")
    world.group("b", "Completed")
    world.once()
    world.put_class("broken", 5, labels={"kubectl-sky/fair-share": "listed"})
    rows = [line.split() for line in invoke("status").output.splitlines()]
    assert rows[0] == ["NAME", "QUEUE", "OWNER", "BASE", "VALUE", "COUNT", "RUNNING", "RECOVERS"]
    assert rows[1][:7] == ["broken", "-", "?", "5", "?", "?", "-"]
    assert rows[2][:7] == [ALICE, "gpu", "alice", "1000", "980", "1", "1"]
    assert rows[2][7] != "-"
    values: Any = json.loads(invoke("status", "-o", "json").output)["classes"]
    assert values[1] == {
        "name": ALICE,
        "queue": "gpu",
        "owner": "alice",
        "value": 980,
        "base": 1000,
        "count": 1,
        "running": 1,
        "recovers": "2096-10-02T07:07:40Z",
    }
    names = invoke("status", "-o", "name").output.splitlines()
    assert names == ["priorityclass/broken", f"priorityclass/{ALICE}"]


def test_status_damaged_time_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    session = World().cluster.session()
    monkeypatch.setattr(Session, "connect", lambda *_: session)
    item = {"metadata": {"name": "x", "annotations": {RECOVERS: "soon"}}, "value": 5}
    monkeypatch.setattr(action, "list_classes", lambda _: [ClassStatus.read(item)])
    done = invoke("status")
    assert done.exception is None
    assert done.output.splitlines()[1].split()[-1] == "-"
