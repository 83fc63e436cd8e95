"""Copies from and to a pod over connections that are cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError
from kubectl_sky.sync import archive
from kubectl_sky.tasks.cp import Place
from kubectl_sky.tasks.ui import UI, Advance
from kubectl_sky.words import kinds
from tests.contract.makers import make_pod
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually

WRITE = "mkdir /tmp/out && seq 300000 > /tmp/out/numbers && echo end > /tmp/out/z && sleep 600"
LINES = [str(number) for number in range(1, 300_001)]


@pytest.fixture
def place(session: Session, cut_session: Session, namespace: str) -> Place:
    """A pod that has written files, reached through the proxy."""
    objects.create(session, make_pod("a", namespace, WRITE))
    program = partial(Program, namespace, "a", "main")

    def has_written() -> bool:
        look = program(["test", "-s", "/tmp/out/z"])
        with suppress(SkyError):
            return executing.run(session, look, Pipes()) == 0
        return False

    eventually(has_written)
    assert objects.exists(cut_session, kinds.POD, "a", namespace)  # so that it knows the server
    return Place(cut_session, program, "pod a", UI())


def test_copy_of_folder_goes_on_where_connections_were_cut(
    place: Place, proxy: CuttingProxy, tmp_path: Path
) -> None:
    proxy.budget = 500_000
    proxy.cuts = 3
    place.get("/tmp/out", str(tmp_path / "copy"))
    assert proxy.cuts == 0
    assert (tmp_path / "copy" / "numbers").read_text().splitlines() == LINES
    assert (tmp_path / "copy" / "z").read_text() == "end\n"


def test_copy_of_files_that_change_before_it_goes_on_is_an_error(
    session: Session, place: Place, proxy: CuttingProxy, namespace: str, tmp_path: Path
) -> None:
    class Change(UI):
        """Remove a file while the copy begins."""

        @contextmanager
        def transfer(self, label: str, size: int) -> Iterator[Advance]:
            remove = Program(namespace, "a", "main", ["rm", "-f", "/tmp/out/z"])
            yield lambda count: executing.run(session, remove, Pipes())

    proxy.budget = 500_000
    proxy.cuts = 1
    place = structs.replace(place, ui=Change())
    with pytest.raises(ClusterError, match="the files have changed since the copy began"):
        place.get("/tmp/out", str(tmp_path / "copy"))


def test_copy_to_a_pod_goes_on_where_connections_were_cut(
    place: Place, proxy: CuttingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are sent in parts; a large one is written piece by piece."""
    monkeypatch.setattr(archive, "PART_BYTES", 1 << 20)
    source = tmp_path / "in"
    source.mkdir()
    (source / "big").write_bytes(os.urandom(3_500_000))
    for number in range(30):
        (source / f"file {number}").write_bytes(os.urandom(50_000))

    limits = [700_000, 3_000_000, 4_000_000]
    sent = 0

    def advance(count: int) -> None:
        nonlocal sent
        sent += count
        if limits and sent > limits[0]:
            limits.pop(0)
            proxy.cut()

    class Cut(UI):
        """Cut the connection at some bytes."""

        @contextmanager
        def transfer(self, label: str, size: int) -> Iterator[Advance]:
            yield advance

    structs.replace(place, ui=Cut()).put(str(source), "/tmp/in")
    assert limits == []
    place.get("/tmp/in", str(tmp_path / "back"))
    names = sorted(path.name for path in source.iterdir())
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == names
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (source / name).read_bytes(), name
