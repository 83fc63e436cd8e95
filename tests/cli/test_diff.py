"""The exit code of `diff`, which is greater than 1 for errors, as in kubectl."""

from pathlib import Path

import pytest

from kubectl_sky.actions import diff, validate
from kubectl_sky.cli.main import main, sky
from kubectl_sky.errors import ClusterError, Interrupted, SkyError, UserError
from kubectl_sky.observe import difference


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
    tmp_path: Path,
    error: BaseException,
    code: int,
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(diff, "diff", fail)
    assert main(["diff", "task.yaml"]) == code
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert not printed.startswith("\n"), "stderr is no terminal"


def test_diff_catches_no_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bug = ValueError("a bug")

    def fail(*given: object) -> None:
        raise bug

    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(diff, "diff", fail)
    with pytest.raises(ValueError, match="a bug"):
        sky.main(["diff", "task.yaml"], standalone_mode=False)
    assert vars(bug) == {}, "it is not marked with an exit code"


def test_diff_bug_with_debug_prints_traceback_and_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*given: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECTL_SKY_DEBUG", "1")
    monkeypatch.setattr(diff, "diff", fail)
    assert main(["diff", "task.yaml"]) == 2
    assert capsys.readouterr().err.endswith("ValueError: a bug\n")


def test_bug_of_another_command_after_diff_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*given: object, **options: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(diff, "diff", fail)
    monkeypatch.setattr(validate, "check", fail)
    assert main(["diff", "task.yaml"]) == 2
    assert main(["validate", "task.yaml"]) == 1


@pytest.mark.parametrize(
    ("program", "reason"), [("sh -c 'kill -9 $$'", "signal 9"), ("sh -c 'exit 3'", "exit code 3")]
)
def test_diff_external_program_that_fails_is_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    program: str,
    reason: str,
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", program)
    pair = difference.pair(None, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    monkeypatch.setattr(diff, "diff", lambda *given: [pair])
    assert main(["diff", "task.yaml"]) == 2
    assert f" failed with {reason}\n" in capsys.readouterr().err
