"""What a cluster was found not to serve, for ten minutes and for this cluster alone."""

import os
import time
from pathlib import Path

import pytest

from kubectl_sky import kinds
from kubectl_sky.cluster import absent

HERE, THERE = "https://10.0.0.1:6443", "https://10.0.0.2:6443"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBECTL_SKY_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_noted_and_forgotten() -> None:
    absent.forget(HERE, kinds.JOB_SET)
    absent.note(HERE, kinds.JOB_SET)
    assert absent.noted(HERE, kinds.JOB_SET)
    assert not absent.noted(THERE, kinds.JOB_SET)
    assert not absent.noted(HERE, kinds.APP_WRAPPER)
    absent.forget(HERE, kinds.JOB_SET)
    assert not absent.noted(HERE, kinds.JOB_SET)


@pytest.mark.parametrize("shift", [-700, 700], ids=["old", "of a clock that was ahead"])
def test_not_for_long(folder: Path, shift: int) -> None:
    absent.note(HERE, kinds.JOB_SET)
    (file,) = folder.glob("absent/*/*")
    os.utime(file, (time.time() + shift,) * 2)
    assert not absent.noted(HERE, kinds.JOB_SET)


def test_a_home_that_cannot_be_written_to(folder: Path) -> None:
    folder.write_text("")
    absent.note(HERE, kinds.JOB_SET)
    assert not absent.noted(HERE, kinds.JOB_SET)
