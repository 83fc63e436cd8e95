"""The exit code of `diff`, which is greater than 1 for errors, as in kubectl."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kubectl_sky.cli.main import main, sky
from kubectl_sky.errors import ClusterError, Interrupted, SkyError, UserError
from kubectl_sky.observe import difference
from kubectl_sky.submitting import diff, validate


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))


def failing(error: BaseException) -> Callable[..., None]:
    def fail(*given: object, **options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("a bug"), 2),
        (SkyError("it took too long"), 2),
        (UserError("the file is wrong"), 2),
        (ClusterError("no answer"), 3),
        (Interrupted("interrupted"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_diff_error_exits_with_more_than_1(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    monkeypatch.setattr(diff, "diff", failing(error))
    assert main(["diff", "task.yaml"]) == code
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert not printed.startswith("\n"), "stderr is no terminal"


def test_diff_bug_is_not_caught_and_exits_with_2_below_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bug = ValueError("a bug")
    monkeypatch.setattr(diff, "diff", failing(bug))
    with pytest.raises(ValueError, match="a bug"):
        sky.main(["diff", "task.yaml"], standalone_mode=False)
    assert vars(bug) == {}, "it is not marked with an exit code"
    monkeypatch.setenv("KUBECTL_SKY_DEBUG", "1")
    assert main(["diff", "task.yaml"]) == 2
    assert capsys.readouterr().err.endswith("ValueError: a bug\n")
    monkeypatch.setattr(validate, "check", failing(bug))
    assert main(["validate", "task.yaml"]) == 1, "the code of diff is that of diff alone"


@pytest.mark.parametrize(
    ("program", "reason"), [("sh -c 'kill -9 $$'", "signal 9"), ("sh -c 'exit 3'", "exit code 3")]
)
def test_diff_external_program_that_fails_is_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str, reason: str
) -> None:
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", program)
    pair = difference.pair(None, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    monkeypatch.setattr(diff, "diff", lambda *given: [pair])
    assert main(["diff", "task.yaml"]) == 2
    assert f" failed with {reason}\n" in capsys.readouterr().err
