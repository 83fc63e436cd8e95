"""fetch.sh copies buckets by a program, and files on the web by curl."""

import subprocess
from pathlib import Path

import pytest

from kubectl_sky import assets

STUB = '#!/bin/sh\necho "${0##*/}" > "$KUBECTL_SKY_SCRATCH/data"\n'
AZURE = "https://{}.blob.core.windows.net/box/file"


@pytest.mark.parametrize(
    ("url", "program", "used"),
    [
        (AZURE.format("account"), {"KUBECTL_SKY_PROGRAM": "rclone"}, "rclone"),
        (AZURE.format("account-secondary"), {}, "curl"),
        ("https://example.com/file", {}, "curl"),
        ("s3://box/file", {"KUBECTL_SKY_PROGRAM": "rclone"}, "rclone"),
    ],
)
def test_fetch_url_is_copied_by_program_of_plan(
    url: str, program: dict[str, str], used: str, tmp_path: Path
) -> None:
    for name in ("curl", "rclone"):
        stub = tmp_path / name
        stub.write_text(STUB)
        stub.chmod(0o755)
    subprocess.run(
        ["/bin/sh", "-c", assets.read("runtime", "fetch.sh")],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "KUBECTL_SKY_SOURCE": url,
            "KUBECTL_SKY_SCRATCH": str(tmp_path),
            "KUBECTL_SKY_LOCATION": "box/file",
            "KUBECTL_SKY_PREFIX": "",
            **program,
        },
        check=True,
    )
    assert (tmp_path / "data").read_text() == f"{used}\n"
