"""The exit code of `diff`, which is greater than 1 for errors, as in kubectl."""

from pathlib import Path

import pytest

from kubectl_sky.actions import diff
from kubectl_sky.cli.main import main
from kubectl_sky.errors import ClusterError, Interrupted, SkyError, UserError


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
    assert "Traceback" not in capsys.readouterr().err
