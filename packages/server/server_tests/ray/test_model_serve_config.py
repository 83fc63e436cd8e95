"""The serveConfigV2 of a graph: Ray's schema accepts it, and Ray Serve serves the graph."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kubectl_sky_server.assets import RUNTIME
from kubectl_sky_server.ray import model_graph as graph
from kubectl_sky_server.ray import model_serve_config as serve_config
from server_tests.ray.graphs import make_bytes, make_graph

ROOT = Path(__file__).parents[4]
_SERVE_SECONDS = 150
# Ray warns about its own code when it is imported, and its import is slow.
_VALIDATE = """
import sys, yaml
from ray.serve.schema import ServeDeploySchema
ServeDeploySchema.model_validate(yaml.safe_load(sys.stdin))
"""


def make_config(data: bytes = b"") -> graph.Json:
    return serve_config.serve_config(graph.parse(data or make_bytes()))


def test_serve_config_has_options_and_structure() -> None:
    market = make_config()["applications"][0]
    assert market["import_path"] == "kubectl_sky_graph:build"
    assert market["args"]["ingress"] == "market"
    assert market["args"]["deployments"][0] == {
        "name": "price",
        "import_path": "server_tests.ray.fruit:Price",
        "arguments": {"base": 2},
        "handles": {},
    }
    options = {item["name"]: item for item in market["deployments"]}
    assert options["price"]["user_config"] == {"factor": 3}
    assert options["mango"]["num_replicas"] == 1
    assert options["pear"]["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 2}


def test_serve_config_changed_option_keeps_arguments() -> None:
    """Ray Serve restarts all replicas of an application whose arguments change."""
    changed = make_graph()
    changed.deployments[1].replicas = 5
    changed.deployments[0].user_config_json = '{"factor": 4}'
    before = make_config()
    after = make_config(changed.SerializeToString())
    assert before != after
    assert [item["args"] for item in before["applications"]] == [
        item["args"] for item in after["applications"]
    ]


@pytest.mark.parametrize("text", ["1e3", "on", "0x1f", "1_000", "\u2028", "😀", "\x07", "a: b", ""])
def test_write_any_text_reads_back(text: str) -> None:
    message = make_graph()
    message.deployments[0].user_config_json = json.dumps({text: [text]})
    config = make_config(message.SerializeToString())
    written = serve_config.write(config)
    assert yaml.safe_load(written) == config
    assert written.isascii()
    assert f": {text}\n" not in written or not text, "strings are always quoted"


@pytest.mark.tools  # ray
def test_serve_config_passes_schema_of_ray() -> None:
    text = serve_config.write(make_config())
    command = [sys.executable, "-c", _VALIDATE]
    subprocess.run(command, input=text, text=True, check=True, timeout=120)


@pytest.mark.alone
@pytest.mark.tools  # ray
def test_serve_config_served_by_ray_answers_through_graph(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = make_config() | {"http_options": {"host": "127.0.0.1", "port": port}}
    (tmp_path / "config.yaml").write_text(serve_config.write(config))
    with serving(tmp_path):
        answer = wait_for(f"http://127.0.0.1:{port}/market?count=5", tmp_path / "log")
        assert json.loads(answer) == {"mango": 30, "pear": 30}
        assert wait_for(f"http://127.0.0.1:{port}/hello", tmp_path / "log") == "hello"


@contextmanager
def serving(folder: Path) -> Iterator[None]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": f"{RUNTIME}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",  # runtime/ holds what is sent to pods
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    program = Path(sys.executable).with_name("serve")

    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "run", folder / "config.yaml"],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # ends all of Ray; SIGTERM aborts a slow machine's
        process.wait()


def wait_for(url: str, log: Path) -> str:
    deadline = time.monotonic() + _SERVE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                text: str = answer.read().decode()
                return text
        except (OSError, urllib.error.HTTPError):
            if time.monotonic() > deadline:
                pytest.fail(f"Ray Serve does not answer:\n{log.read_text()[-3000:]}")
            time.sleep(0.5)
