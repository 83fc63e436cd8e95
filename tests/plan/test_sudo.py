"""Root has a sudo in every image: a part of the runtime for tasks whose scripts mention it."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky import assets
from tests.plan.test_resolve import make_plan, make_task


@pytest.mark.parametrize("change", [{"run": "sudo ls\n"}, {"setup": "A=1 sudo -E apt-get update"}])
def test_task_that_calls_sudo_brings_one(change: dict[str, Any]) -> None:
    assert "sudo.sh" in make_plan(replace(make_task(), **change)).scripts


def test_task_that_does_not_call_sudo_brings_none() -> None:
    assert "sudo.sh" not in make_plan(replace(make_task(), run="id", setup="true")).scripts


CALLS = {
    "sudo echo a b": (0, "a b"),
    "sudo -E -n A=1 sh -c 'echo $A $B'": (0, "1 2"),
    "sudo -u root echo x": (0, "x"),
    "echo x | xargs sudo echo": (0, "x"),
    "sudo false": (1, ""),
    "sudo nosuchprogram": (127, ""),
    "sudo -u nobody id": (1, ""),
    "sudo -i": (1, ""),
    "sudo": (1, ""),
}


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.skipif(os.getuid() != 0, reason="only root gets a sudo")
def test_sudo_runs_the_command_in_any_shell(command: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"  # an image without sudo
    programs.mkdir()
    for name in ("sh", "id", "mkdir", "cat", "chmod", "env", "xargs", "echo", "false"):
        (programs / name).symlink_to(str(shutil.which(name)))
    part = tmp_path / "sudo.sh"
    part.write_text(assets.read("runtime", "sudo.sh"))
    environ = {"PATH": str(programs), "KUBECTL_SKY_FILES": str(tmp_path / "room"), "B": "2"}
    script = f". {part}; . {part}; {command}"
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == CALLS[command]


@pytest.mark.skipif(os.getuid() != 0, reason="only root gets a sudo")
def test_sudo_of_the_image_is_used(tmp_path: Path) -> None:
    part = tmp_path / "sudo.sh"
    part.write_text(f"sudo() {{ echo image; }}\n{assets.read('runtime', 'sudo.sh')}sudo x\n")
    environ = {"PATH": os.environ["PATH"], "KUBECTL_SKY_FILES": str(tmp_path / "room")}
    done = subprocess.run(
        ["/bin/sh", str(part)], env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout, (tmp_path / "room").exists()) == ("image\n", False)
