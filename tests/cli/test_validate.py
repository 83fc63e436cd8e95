"""`validate` on a terminal shows the lines of problems."""

from pathlib import Path

import pytest

from kubectl_sky.cli.main import main


def validated(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Validate a file on a terminal, and return the lines of stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    (folder / "task.yaml").write_text(text)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    main(["validate", "task.yaml"])
    return capsys.readouterr().err.splitlines()


def test_validate_on_terminal_marks_the_field_in_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "run: echo\nresources:\n  acelerators: A100\n"
    first, *excerpt = validated(text, tmp_path, monkeypatch, capsys)
    assert first.startswith("task.yaml:3:3: resources.acelerators: ")
    assert excerpt == ["    3 |   acelerators: A100", "      |   ^^^^^^^^^^^"]


@pytest.mark.parametrize(
    "text",
    [
        "secrets: {TOKEN: [a]}\nrun: a\n",
        "secrets:\n  TOKEN: [a]\nrun: a\n",
        "secrets:\n  TOKEN: a: b\nrun: a\n",
        "run: a\n" + "".join(f"field{number}: a\n" for number in range(11)),
    ],
)
def test_validate_on_terminal_quotes_no_secret_and_not_many_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    lines = validated(text, tmp_path, monkeypatch, capsys)
    assert lines and not any(" | " in line for line in lines)
