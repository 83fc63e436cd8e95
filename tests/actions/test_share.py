"""`doctor --share`: a ticket in Markdown, without values of secrets."""

import pytest

from kubectl_sky.cli import share
from kubectl_sky.observe.masks import Mask
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
    sections = ["Events", "Task file", "Versions", "Left out"]
    assert titles == [f"Task {ID} (train): pending", *sections]
    assert f"Warning FailedCreate /train-{ID}: no ``` room" in out
    assert "````text" in out, "no text ends its block"
    assert "EPOCHS: REDACTED" in out and "HF_TOKEN: REDACTED" in out
    assert "abcd" not in out and "efgh" not in out
    assert "Replaced by REDACTED: values of envs: 2.\n" in out


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


SECRETS = "name: train\nsecrets: {TOK: hunter2secret}\nrun: 'false'\n"
WORDS = "ValueError: cannot log in with token hunter2secret"


def fail(api: FakeCluster, message: str) -> None:
    api.start(f"train-{ID}")
    api.finish(f"train-{ID}", 1, message=message)


def test_share_masks_values_of_the_tasks_secret_in_words_of_the_program(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(SECRETS)
    fail(api, WORDS)
    out = run("doctor", ID, "--share")[1]
    assert "ValueError: cannot log in with token REDACTED" in out.replace("\n", " ")
    assert "hunter2" not in out and "values of Secrets: 1" in out


def test_share_without_right_on_secret_leaves_words_of_the_program_out(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(SECRETS)
    fail(api, WORDS)
    put_warning(api, f"train-{ID}-x", "Unhealthy", f"probe failed: {WORDS}", kind="Pod")
    api.forbidden.add("get secrets")
    out = run("doctor", ID, "--share")[1]
    assert "exit code 1" in out and "Words of programs: you may not read a Secret" in out
    assert "ValueError" not in out and "hunter2" not in out


@pytest.mark.parametrize(
    "fields",
    [
        "envs: {NAME: s99SECRET}",
        "envs: {DATABASE_URL: 'postgres://u:s99SECRET@db/x'}",
        "event_callback: 'curl https://a/s99SECRET'",
        "setup: export TOKEN=s99SECRET",
        "service: {port: 80, readiness_probe: {path: /, headers: {X-Any: s99SECRET}}}",
        "file_mounts: {/data: 'https://a/b?sig=s99SECRET'}",
        "config: {docker: {run_options: ['-e', 'TOKEN=s99SECRET']}}",
        "pod_config: {metadata: {annotations: {any: s99SECRET}}}",
        "pod_config: {spec: {containers: [{env: [{name: A, value: s99SECRET}]}]}}",
        "pod_config: {spec: {containers: [{args: ['--token', s99SECRET]}]}}",
    ],
)
def test_share_masks_fields_that_may_hold_secrets(fields: str) -> None:
    mask = Mask()
    out = share._masked_file(share._parse(f"name: train\n{fields}\n"), mask)
    assert "s99SECRET" not in out and out.startswith("name: train\n")
    assert mask.counts.total() == 1


def test_share_masks_values_of_envs_in_logs_and_events(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nenvs: {URL: plain-value}\nrun: echo plain-value\n")
    fail(api, "ConnectionError: plain-value")
    put_warning(api, f"train-{ID}", message="denied: plain-value")
    out = run("doctor", ID, "--share")[1]
    assert "ConnectionError: REDACTED" in out and "denied: REDACTED" in out
    assert "plain-value" not in out


def test_share_names_fields_of_kubernetes_that_only_smell() -> None:
    text = "secretKeyRef: {name: a, key: b}\nvolume: {secretName: c}\ntoleration: {key: gpu}\n"
    shown = share._masked_file(share._parse(text), Mask())
    assert "REDACTED" not in shown
