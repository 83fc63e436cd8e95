"""Copy files to and from a node."""

import os
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit, until_running

TASK = "name: files\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: sleep 300\n"


@pytest.fixture
def task(sky: Command) -> str:
    submit(sky, TASK, "files001")
    until_running(sky, "files001")
    return "files001"


def inside(sky: Command, task: str, script: str) -> str:
    done = sky("exec", task, "--rank", "1", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cp_upload_and_download_preserve_files(sky: Command, task: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a folder" / "empty").mkdir(parents=True)
    (tree / "a folder" / "data").write_bytes(os.urandom(3_000_000))
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "link").symlink_to("run.sh")
    for source, target in (("tree", "/tmp"), ("tree", "/tmp/other"), ("tree/run.sh", "")):
        done = sky("cp", source, f"{task}:{target}", "--rank", "1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    listed = inside(sky, task, "cd /tmp/tree && find . | sort; readlink link; ls ../other/run.sh")
    names = [".", "./a folder", "./a folder/data", "./a folder/empty", "./link", "./run.sh"]
    assert listed.splitlines() == [*names, "run.sh", "../other/run.sh"]
    assert inside(sky, task, "cd; cat sky_workdir/run.sh") == "#!/bin/sh\n"

    for source, target in (("/tmp/tree", "back"), ("/tmp/tree/", "."), ("run.sh", "one")):
        (tmp_path / "down").mkdir(exist_ok=True)
        done = sky("cp", f"{task}:{source}", f"down/{target}", "--rank", "1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for copy in (tmp_path / "down" / "back", tmp_path / "down" / "tree"):
        paths = sorted(str(path.relative_to(copy)) for path in copy.rglob("*"))
        assert paths == sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
        assert (copy / "a folder" / "data").read_bytes() == (
            tree / "a folder" / "data"
        ).read_bytes()
        assert (copy / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "down" / "one").read_text() == "#!/bin/sh\n"


REFUSED = {
    ("nothing", "{}:/tmp"): "nothing: no such file or folder",
    ("{}:/tmp/nothing", "."): "/tmp/nothing: no such file or folder in node-0",
    ("{}:sky_workdir/x", "."): "hint: relative paths start in ~/sky_workdir",
    ("kubeconfig", "{}:/no/such/"): "/no/such/: no such target folder in node-0",
    ("{}:/etc", "no/such"): "no: no such folder",
    ("{}:/", "."): "the root folder cannot be copied",
    ("{}:/tmp", ".", "--rank", "7"): "has no rank 7",
}


@pytest.mark.practice_only
def test_cp_invalid_arguments_are_refused(sky: Command, task: str) -> None:
    for arguments, message in REFUSED.items():
        done = sky("cp", *(word.format(task) for word in arguments))
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert message in done.stderr


def test_cp_image_without_tar_is_refused(sky: Command) -> None:
    script = "name: bare\nrun: rm -f /bin/tar /usr/bin/tar; touch /tmp/ready; sleep 300\n"
    submit(sky, script, "notar001")
    until_running(sky, "notar001")
    ready = ("sh", "-c", "until [ -e /tmp/ready ]; do sleep 0.2; done")
    assert sky("exec", "notar001", "--", *ready).returncode == 0
    done = sky("cp", "kubeconfig", "notar001:/tmp")
    assert done.returncode == 2
    assert "the image of node-0 has no tar, which cp needs\nhint: to copy a single" in done.stderr
