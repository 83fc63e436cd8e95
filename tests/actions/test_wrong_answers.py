"""Garbled answers, as of a gateway before the API server: exit code 3, and nothing is left."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cluster import backoff
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: train\nnum_nodes: 2\nresources: {cpus: 2}\nrun: echo\n"
COMMANDS = {
    "submit": ("submit", "train.yaml", "--detach", "--id", "xyzw2345"),
    "submit-again": ("submit", "train.yaml", "--detach", "--id", ID),
    "list": ("list", "--all-namespaces"),
    "status": ("status", ID),
    "wait": ("wait", ID, "--timeout", "0.02s"),
    "stop": ("stop", ID),
    "doctor": ("doctor", ID),
    "volumes": ("volumes", "list"),
    "gpus": ("gpus",),
}
ANSWERS: tuple[Any, ...] = ([], "x", {"metadata": {}, "items": [1]}, {"metadata": {"name": 3}})


def _replace(request: str, answer: Any, name: str, body: Any) -> Any:
    return answer if name.startswith(request) else body


@pytest.mark.parametrize("command", COMMANDS)
def test_garbled_answer_to_any_request_exits_3_and_leaves_nothing(
    api: FakeCluster, send: Submitter, run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0.02)
    send(TASK)
    Path("train.yaml").write_text(TASK)
    before = api.saved()
    requests = set[str]()

    def keep(request: str, body: Any) -> Any:
        requests.add(request.rpartition(" ")[0])
        return body

    api.alter = keep
    usual = run(*COMMANDS[command])[0]
    problems = []
    for request in sorted(requests):
        for answer in ANSWERS:
            api.restore(before)
            api.alter = partial(_replace, request, answer)
            code, out, err = run(*COMMANDS[command])
            left = set(api.names()) - {" ".join(key.split("/")[-2:]) for key in before}
            if "internal error" in err or code not in (0, 3, usual) or (code == 3 and left):
                problems.append((request, answer, code, out, err, left))
    assert not problems


def test_wrong_answer_names_server_request_and_field(api: FakeCluster, run: Run) -> None:
    api.alter = lambda request, body: {"metadata": {}, "items": [{"metadata": {"name": 3}}]}
    code, out, err = run("list", "--user", "alice")
    assert (code, out) == (3, "")
    assert err.splitlines()[0].startswith(
        "error: https://fake.example does not answer like a Kubernetes API server (GET jobs.batch):"
        " Expected `str`, got `int` - at `$.items[0].metadata.name`"
    )
