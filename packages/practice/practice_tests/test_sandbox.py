"""The file system of containers: host files are read-only."""

from pathlib import Path

import pytest

from practice_tests.machine import Machine, play
from practice_tests.world import until

pytestmark = pytest.mark.anyio


def test_container_host_files_are_read_only(tmp_path: Path) -> None:
    """Host files are readable at their paths; only files of the pod are writable."""
    (tmp_path / "mine").write_text("host")

    async def story(m: Machine) -> None:
        m.pod(
            "a",
            f"""
            for path in / /tmp /var/tmp /run /dev/shm $HOME; do
              echo x > $path/new && echo "$path: $(ls -A $path | wc -l)"
            done
            for path in /etc /usr /usr/bin /proc/sys/kernel; do
              (echo x > $path/new) 2> /dev/null || echo "$path: no"
            done
            mount -o remount,rw,bind /usr 2> /dev/null || echo remount: no
            cat {tmp_path}/mine 2> /dev/null || echo hidden
            hostname; cat /etc/hostname; echo $HOSTNAME $HOME; pwd
            echo > /dev/null && head -c 1 /dev/zero | wc -c
            ls /proc | grep -c '^[0-9]*$'
            """,
        )

        await m.ended("a")
        lines = (await m.log("a")).splitlines()
        assert lines[1:6] == [
            "/tmp: 1",
            "/var/tmp: 1",
            "/run: 1",
            "/dev/shm: 1",
            "/home/practice: 1",
        ]
        assert lines[6:11] == [
            *("/etc: no", "/usr: no", "/usr/bin: no", "/proc/sys/kernel: no", "remount: no"),
        ]
        hidden = tmp_path.is_relative_to("/tmp") or tmp_path.is_relative_to("/run")
        assert lines[11] == ("hidden" if hidden else "host")
        assert lines[12:16] == ["a", "a", "a /home/practice", "/"]
        assert lines[16] == "1"
        assert int(lines[17]) < 6  # only processes of the container

    play(tmp_path / "d", story)
    assert not Path("/new").exists()
    assert not Path("/var/tmp/new").exists()


async def test_container_volumes_can_be_mounted_at_any_path(m: Machine) -> None:
    """Mount paths may be missing, folders or files on the host."""
    m.create("configmaps", "c", data={"one": "1", "two": "2"})
    paths = ["/data", "/etc/deep/er", "/srv", "/tmp/x", "/dev/shm", "/var/run/links"]
    mounts = [{"name": "own", "mountPath": path} for path in paths]
    mounts.append({"name": "c", "mountPath": "/etc/hosts", "subPath": "one"})
    mounts.append({"name": "c", "mountPath": "/data/inner"})
    m.pod(
        "a",
        "echo own > /data/f; for p in /etc/deep/er /srv /tmp/x /dev/shm /run/links; do"
        " cat $p/f; done; cat /etc/hosts /data/inner/two; echo;"
        " test -f /etc/passwd && echo etc;"
        " (echo no > /data/inner/two) 2> /dev/null || echo frozen",
        volumeMounts=mounts,
        volumes=[{"name": "own", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
    )

    await m.ended("a")
    assert await m.log("a") == "own\n" * 5 + "12\netc\nfrozen\n"


def test_container_volume_sources_are_mounted(tmp_path: Path) -> None:
    async def story(m: Machine) -> None:
        m.create("secrets", "s", data={"password": "aGVsbG8="}, type="Opaque")
        m.create("configmaps", "c", data={"a": "A"}, binaryData={"b": "/w=="})
        items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
        sources = [
            {"secret": {"name": "s", "items": [{"key": "password", "path": "in/here"}]}},
            {"configMap": {"name": "absent", "optional": True}},
            {"downwardAPI": {"items": items}},
        ]

        host = tmp_path / "host"
        m.pod(
            "a",
            "cd /v; stat -c '%a %s' c/a c/b; cat p/in/here p/labels; echo x > h/made;"
            " cat sub; (echo y > ro/z) 2> /dev/null || echo frozen",
            metadata={"labels": {"k": "v"}},
            volumes=[
                {"name": "c", "configMap": {"name": "c", "defaultMode": 0o500}},
                {"name": "p", "projected": {"sources": sources}},
                {"name": "h", "hostPath": {"path": str(host), "type": "DirectoryOrCreate"}},
            ],
            volumeMounts=[
                {"name": "c", "mountPath": "/v/c"},
                {"name": "p", "mountPath": "/v/p"},
                {"name": "h", "mountPath": "/v/h"},
                {"name": "h", "mountPath": "/v/ro", "readOnly": True},
                {"name": "c", "mountPath": "/v/sub", "subPath": "a"},
            ],
        )

        await m.ended("a")
        log = await m.log("a")
        assert log.startswith('500 1\n500 1\nhellok="v"A')
        assert log.endswith("frozen\n")
        assert (host / "made").read_text() == "x\n"

    play(tmp_path / "d", story)


@pytest.mark.parametrize("missing", ["absent", "nokey"])
async def test_container_missing_volume_source_is_failed_mount(m: Machine, missing: str) -> None:
    m.create("secrets", "s", data={}, type="Opaque")
    name = "absent" if missing == "absent" else "s"
    items = [{"key": "k", "path": "k"}]
    volume = {"name": "v", "secret": {"secretName": name, "items": items}}
    mounts = [{"name": "v", "mountPath": "/v"}]
    m.pod("a", "cat /v/k", volumes=[volume], volumeMounts=mounts)
    text = 'secret "absent" not found'
    text = text if missing == "absent" else "references non-existent secret key: k"
    message = f'MountVolume.SetUp failed for volume "v" : {text}'
    await until(lambda: message in m.events("FailedMount"))
    assert m.container("a")["state"] == {"waiting": {"reason": "ContainerCreating"}}

    if missing == "absent":
        m.create("secrets", "absent", data={"k": "dg=="}, type="Opaque")
    else:
        m.api.change("secrets", ("team", "s"), lambda it: it.update(data={"k": "dg=="}))
    await m.ended("a")
    assert await m.log("a") == "v"


async def test_container_environment_equals_real_cluster(m: Machine) -> None:
    """Compared with a real cluster and the same pod."""
    m.create("configmaps", "c", data={"FROM": "f"})
    m.create("secrets", "s", data={"k": "c2VjcmV0"}, type="Opaque")
    field = {"fieldRef": {"fieldPath": "metadata.labels['a']"}}
    m.pod(
        "a",
        "echo $(FROM) \"$A\" $LABEL $CPU $MEM $P_FROM $SECRET; echo '$(HOME) $$(A)' ${OPT-unset}",
        metadata={"labels": {"a": "x"}},
        resources={"requests": {"cpu": "10m", "memory": "10Mi"}},
        envFrom=[
            {"configMapRef": {"name": "c"}},
            {"prefix": "P_", "configMapRef": {"name": "c"}},
            {"secretRef": {"name": "absent", "optional": True}},
        ],
        env=[
            {"name": "A", "value": "a-$(FROM)-$$(x)-$(LATER)"},
            {"name": "LATER", "value": "l"},
            {"name": "LABEL", "valueFrom": field},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
            {
                "name": "MEM",
                "valueFrom": {
                    "resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}
                },
            },
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {
                "name": "OPT",
                "valueFrom": {"configMapKeyRef": {"name": "c", "key": "no", "optional": True}},
            },
        ],
    )

    await m.ended("a")
    assert await m.log("a") == "f a-f-$(x)-$(LATER) x 1 10 f secret\n$(HOME) $(A) unset\n"


async def test_container_gets_no_variables_or_files_of_server(
    m: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_SERVER", "x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    m.pod("a", "env; ls /proc/self/fd | tr '\\n' ' '")
    await m.ended("a")
    log = await m.log("a")
    assert "A_SECRET_OF_THE_SERVER" not in log
    assert "HTTPS_PROXY=http://proxy:1\n" in log
    assert log.endswith("0 1 2 3 ")  # 3 is the folder that ls reads
