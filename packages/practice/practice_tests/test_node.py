"""The node: DNS of pods, restarts as after a reboot, and no leftover processes."""

import time
from pathlib import Path

import pytest

from practice_tests import process
from practice_tests.client import Client
from practice_tests.machine import Machine, container, play, shared
from practice_tests.polling import eventually
from practice_tests.world import Json, until

pytestmark = pytest.mark.anyio


def test_node_restart_fails_or_restarts_running_pods(tmp_path: Path) -> None:
    """Pods that ran when the node stopped are treated as after a reboot."""

    async def before(m: Machine) -> None:
        m.pod("never", "echo up; sleep 1000")
        m.pod("always", "echo up; sleep 1000", restartPolicy="Always")
        m.pod("done", "true")
        for name in ("never", "always"):
            await m.wait_for_log(name, "up\n")
        await m.ended("done")

    async def after(m: Machine) -> None:
        status = await m.ended("never")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
        await until(lambda: "running" in m.container("always")["state"])
        assert m.container("always")["restartCount"] == 1
        assert m.container("always")["lastState"]["terminated"]["exitCode"] == 137
        assert m.status("done")["phase"] == "Succeeded"
        assert await m.log("done") == ""

    play(tmp_path, before)
    play(tmp_path, after)


BEAT = "setsid sh -c 'while :; do date +%N > /test/beat; sleep 0.02; done' & wait"


def beating_pod(folder: Path) -> Json:
    """Return a pod whose background process writes to a file repeatedly."""
    files = shared(folder)
    main = container("main", BEAT) | {"volumeMounts": files["volumeMounts"]}
    return {"containers": [main], "volumes": files["volumes"]}


def assert_no_beat(file: Path) -> None:
    """Wait until nothing writes to the file: the kernel may still be killing the process."""

    def is_still() -> bool:
        file.unlink(missing_ok=True)
        time.sleep(0.5)
        return not file.exists()

    eventually(is_still)


@pytest.mark.practice
def test_server_killed_kills_all_processes(tmp_path: Path) -> None:
    with process.server() as server:
        pod = {"metadata": {"name": "a"}, "spec": beating_pod(tmp_path)}
        assert Client(server).ask("POST", "/api/v1/namespaces/default/pods", pod) == 201
        eventually(lambda: (tmp_path / "beat").exists())
        server.process.kill()
        server.process.wait()
    assert_no_beat(tmp_path / "beat")


def test_node_without_linux_namespaces_translates_volume_paths(tmp_path: Path) -> None:
    """Volume paths are translated, and an event reports the missing namespaces."""

    async def story(m: Machine) -> None:
        m.create("configmaps", "c", data={"f": "text"})
        m.pod(
            "a",
            "cat /conf/f $FILE; echo; pwd; python3 -c 'import socket;"
            ' print(socket.gethostbyname("a"))\'',
            volumes=[{"name": "c", "configMap": {"name": "c"}}],
            volumeMounts=[{"name": "c", "mountPath": "/conf"}],
            env=[{"name": "FILE", "value": "/conf/f"}],
            workingDir="/conf",
        )

        await m.ended("a")
        text, folder, address = (await m.log("a")).splitlines()
        assert text == "texttext"
        assert folder.startswith(str(tmp_path)) and folder.endswith("/volumes/c")
        assert address == m.status("a")["podIP"]
        (notice,) = m.events("NoNamespaces")
        assert "allows no namespaces" in notice

    play(tmp_path, story, namespaces=False)
