"""Tasks with large files, for tests of the code cache volume."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.support import write_settings

TASK = """
workdir: code
num_nodes: 3
resources: {image_id: 'python:3.13-slim'}
run: sha256sum data | cut -c 1-64
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    """Create a folder with 6 MB of random data; return the hash of its file."""
    (tmp_path / "code").mkdir()
    data = os.urandom(6_000_000)
    (tmp_path / "code" / "data").write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def printed_hashes(output: str) -> list[str]:
    return re.findall(r"^(?:node-\d \| )?([0-9a-f]{64})$", output, re.MULTILINE)


def create_shared_volume(sky: Command, folder: Path) -> None:
    """Create a ReadWriteMany volume and set it as code_volume."""
    made = sky("volumes", "create", "code", "1Gi", "--access-modes", "RWX")
    assert made.returncode == 0, made.stderr
    write_settings(folder, "code_volume: code\n")
