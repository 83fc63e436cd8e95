"""`doctor --share`: a ticket in Markdown, without values of secrets."""

from kubectl_sky.cli import share
from tests.actions.conftest import Run, Submitter, put_warning
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TEXT = "name: train\nenvs: {EPOCHS: 10, HF_TOKEN: abcd}\nsecrets: {PASSWORD: efgh}\nrun: echo\n"


def test_share_has_verdict_events_file_and_versions_without_secrets(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(TEXT)
    put_warning(api, f"train-{ID}", message="no ``` room")
    code, out, err = run("doctor", ID, "--share")
    assert code == 0, err
    titles = [line[4:] for line in out.splitlines() if line.startswith("### ")]
    assert titles == [f"Task {ID} (train): pending", "Events", "Task file", "Versions"]
    assert f"Warning FailedCreate /train-{ID}: no ``` room" in out
    assert "````text" in out, "no text ends its block"
    assert "EPOCHS: 10" in out.replace("'", "") and "HF_TOKEN: REDACTED" in out
    assert "abcd" not in out and "efgh" not in out


def test_share_shows_script_as_it_was_written(run: Run, send: Submitter) -> None:
    send("name: train\nrun: |\n  echo one\n  echo two\n")
    assert "\nrun: |\n  echo one\n  echo two\n```\n" in run("doctor", ID, "--share")[1]


def test_share_without_task_or_with_format_is_refused(run: Run) -> None:
    assert run("doctor", "--share")[0] == run("doctor", ID, "--share", "-o", "json")[0] == 2


def test_share_events_are_limited(run: Run, api: FakeCluster, send: Submitter) -> None:
    send(TEXT)
    for number in range(share._MAX_EVENTS + 5):
        put_warning(api, f"train-{ID}", reason=f"Failed{number}")
    assert run("doctor", ID, "--share")[1].count(" Warning Failed") == share._MAX_EVENTS
