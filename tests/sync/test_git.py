"""The index of a repository is read as git reads it; none of them hangs or crashes."""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_sky.errors import UserError
from kubectl_sky.sync import git

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.com")
SUBMODULES = ("-c", "protocol.file.allow=always")
LONG = "/".join(["x" * 200] * 20) + "/y"  # longer than the length in an entry can say
NAMES = [b"a", b"a.b", b"a/b c", b"a/b\nc", b"dir/deep/\xff\xfe", "é".encode(), LONG.encode()]
STAT = bytes(60)  # of an entry, and the hash of its file


def run_git(folder: Path, *arguments: str, data: bytes = b"") -> bytes:
    command = ["git", *AUTHOR, *SUBMODULES, *arguments]
    return subprocess.run(
        command, cwd=folder, input=data, check=True, stdout=subprocess.PIPE
    ).stdout


def add(repository: Path, *names: bytes) -> None:
    """Add names to an index, whether files have them or not."""
    empty = run_git(repository, "hash-object", "-w", "--stdin").strip()
    lines = [b"100644 %s 0\t%s\0" % (empty, name) for name in names]
    run_git(repository, "update-index", "-z", "--index-info", data=b"".join(lines))


def by_git(folder: Path) -> set[bytes]:
    """Return the files that git tracks below a folder, and their folders."""
    names = run_git(folder, "ls-files", "-z").split(b"\0")[:-1]
    parts = [name.split(b"/") for name in names]
    return {b"/".join(path[:end]) for path in parts for end in range(1, len(path) + 1)}


def by_us(repository: Path, root: Path | None = None) -> frozenset[bytes]:
    index = git.read_index(repository, root or repository)
    assert index.note == ""
    return index.paths


def note(repository: Path) -> str:
    """Return why the tracked files are not known."""
    index = git.read_index(repository, repository)
    assert index.paths == frozenset()
    assert index.note.startswith(f"{repository}: git's index "), index.note
    assert index.note.endswith(
        ": ignored files are not uploaded, even if git tracks them; choose with .skyignore"
    )
    return index.note.removeprefix(f"{repository}: git's index ").partition(": ignored")[0]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    run_git(folder, "init", "-q")
    return folder


def write(repository: Path, content: bytes) -> None:
    """Write an index, with the hash that it ends with."""
    digest = hashlib.sha1(content, usedforsecurity=False).digest()
    (repository / ".git" / "index").write_bytes(content + digest)


def entry(name: bytes) -> bytes:
    """Return an entry of version 2."""
    return STAT + b"\0\0" + name + bytes(8 - (62 + len(name)) % 8)


def header(version: int, entries: int) -> bytes:
    return b"DIRC" + version.to_bytes(4) + entries.to_bytes(4)


@pytest.mark.parametrize("version", [2, 4])
def test_index_of_each_version_has_names_of_git(repository: Path, version: int) -> None:
    add(repository, *NAMES)
    run_git(repository, "update-index", f"--index-version={version}")
    assert by_us(repository) == by_git(repository)


@pytest.mark.parametrize("version", [3, 4])
def test_index_with_extended_flags_has_names_of_git(repository: Path, version: int) -> None:
    (repository / "later").write_text("x")
    add(repository, *NAMES)
    run_git(repository, "update-index", f"--index-version={2 if version == 3 else version}")
    run_git(repository, "add", "--intent-to-add", "later")
    run_git(repository, "update-index", "--skip-worktree", "a.b")
    assert (repository / ".git" / "index").read_bytes()[7] == version
    assert by_us(repository) == by_git(repository)
    assert b"later" in by_us(repository)


def test_index_of_sha256_or_without_hash_has_names_of_git(tmp_path: Path) -> None:
    for kind, size in (("sha1", 20), ("sha256", 32)):
        repository = tmp_path / kind
        run_git(tmp_path, "init", "-q", f"--object-format={kind}", kind)
        add(repository, *NAMES)
        assert by_us(repository) == by_git(repository)
        file = repository / ".git" / "index"
        file.write_bytes(file.read_bytes()[:-size] + bytes(size))  # as index.skipHash does
        assert by_us(repository) == by_git(repository)


def test_index_of_merge_conflict_has_names_of_git(repository: Path) -> None:
    empty = run_git(repository, "hash-object", "-w", "--stdin").strip()
    lines = [b"100644 %s %d\tboth\0" % (empty, stage) for stage in (1, 2, 3)]
    run_git(repository, "update-index", "-z", "--index-info", data=b"".join(lines))
    assert by_us(repository) == by_git(repository) == {b"both"}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.sets(st.text("ab-é\n", min_size=1, max_size=9), min_size=1, max_size=20),
    folders=st.lists(st.sampled_from(["", "d/", "d/e/", "f-/"]), min_size=1),
    version=st.sampled_from(["2", "4"]),
)
def test_index_random_names_are_those_of_git(
    repository: Path, names: set[str], folders: list[str], version: str
) -> None:
    (repository / ".git" / "index").unlink(missing_ok=True)
    chosen = [folders[number % len(folders)] + name for number, name in enumerate(names)]
    add(repository, *(name.encode() for name in chosen))
    run_git(repository, "update-index", f"--index-version={version}")
    assert by_us(repository) == by_git(repository)


def test_index_of_folder_in_repository_has_its_names_only(repository: Path) -> None:
    add(repository, b"pkg/lib/core", b"pkg/a", b"pkg-1/b", b"c")
    inner = repository / "pkg"
    inner.mkdir()
    assert by_us(repository, inner) == by_git(inner) == {b"lib", b"lib/core", b"a"}


def test_index_of_worktree_and_submodule_is_found(repository: Path, tmp_path: Path) -> None:
    (repository / "a").write_text("x")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-qm", "x")
    worktree = tmp_path / "worktree"
    run_git(repository, "worktree", "add", "-q", str(worktree))
    add(worktree, b"only/here")
    outer = tmp_path / "outer"
    run_git(tmp_path, "init", "-q", "outer")
    run_git(outer, "submodule", "--quiet", "add", str(repository), "module")
    for folder in (worktree, outer / "module"):
        assert (folder / ".git").is_file()
        assert by_us(folder) == by_git(folder)
    assert by_us(outer) == {b".gitmodules", b"module"}


def test_index_of_new_repository_is_empty(repository: Path) -> None:
    assert by_us(repository) == frozenset()


def test_index_split_is_said(repository: Path) -> None:
    add(repository, *NAMES)
    run_git(repository, "update-index", "--split-index")
    assert note(repository) == "is split"
    run_git(repository, "update-index", "--no-split-index")
    assert by_us(repository) == by_git(repository)


def test_index_sparse_is_said(repository: Path) -> None:
    for name in ("a", "b"):
        (repository / name).mkdir()
        (repository / name / "file").write_text("x")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-qm", "x")
    run_git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    assert note(repository) == "is sparse"
    run_git(repository, "sparse-checkout", "reapply", "--no-sparse-index")
    assert by_us(repository) == by_git(repository)


def test_index_that_git_could_not_read_is_said(repository: Path) -> None:
    name = entry(b"a")
    known = {
        header(1, 0): "has an unknown version",
        header(2, 0)[::-1]: "has an unknown version",
        header(2, 2**32 - 1): "is malformed",
        header(2, 1) + STAT: "is malformed",
        header(2, 1) + entry(b""): "is malformed",
        header(2, 1) + name + b"x": "has an unknown extension",
        header(2, 1) + name + b"FSMN" + bytes(3): "is malformed",
        header(2, 1) + name + b"abcd" + bytes(4): "has an unknown extension",
        header(4, 1) + STAT + b"\0\0\x01a\0": "is malformed",  # cuts more than there is
        header(4, 1) + STAT + b"\0\0" + b"\xff" * 100_000: "is malformed",
    }
    for content, problem in known.items():
        write(repository, content)
        assert note(repository) == problem, content[:100]
    (repository / ".git" / "index").write_bytes(header(2, 0) + b"x" * 20)
    assert note(repository) == "is malformed", "another hash"

    (repository / ".git" / "index").unlink()
    (repository / ".git" / "index").mkdir()
    assert note(repository) == "is a directory"


def test_index_truncated_anywhere_is_said(repository: Path) -> None:
    add(repository, *NAMES[:5])
    whole = (repository / ".git" / "index").read_bytes()[:-20]
    for end in range(12, len(whole)):
        write(repository, whole[:end])
        index = git.read_index(repository, repository)
        assert index.note or index.paths == by_git(repository), end


@given(
    content=st.binary(max_size=300), version=st.integers(2, 4), entries=st.sampled_from([0, 1, 3])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_index_random_bytes_are_no_names(
    repository: Path, content: bytes, version: int, entries: int
) -> None:
    write(repository, header(version, entries) + STAT[: len(content)] + content)
    index = git.read_index(repository, repository)
    assert index.note or bool(index.paths) == bool(entries)
    (repository / ".git" / "index").write_bytes(content)
    assert not git.read_index(repository, repository).paths


def large(repository: Path) -> None:
    with (repository / ".git" / "index").open("wb") as file:
        file.truncate(40 << 30)


def many_entries(repository: Path) -> None:
    entries = [entry(b"%07d" % number) for number in range(460_000)]
    write(repository, header(2, len(entries)) + b"".join(entries))


def deep_names(repository: Path) -> None:
    entries = [entry(b"%d" % number + b"/a" * 2000) for number in range(8000)]
    write(repository, header(2, len(entries)) + b"".join(entries))


def growing_names(repository: Path) -> None:
    write(repository, header(4, 400_000) + (STAT + b"\0\0\0x\0") * 400_000)


def many_extensions(repository: Path) -> None:
    write(repository, header(4, 0) + b"TREE\0\0\0\0" * 4_000_000)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (large, "is larger than 32 MiB"),
        (many_entries, ""),
        (deep_names, "has more than 64 MiB of paths"),
        (growing_names, "is malformed"),
        (many_extensions, ""),
    ],
)
def test_index_hostile_size_takes_little_time(
    repository: Path, make: Callable[[Path], None], problem: str
) -> None:
    make(repository)
    start = time.process_time()
    index = git.read_index(repository, repository)
    assert time.process_time() - start < 10, "CPU seconds"
    assert problem in index.note and bool(problem) == bool(index.note)


def test_index_pipes_in_repository_are_refused(repository: Path, tmp_path: Path) -> None:
    os.mkfifo(repository / ".git" / "index")
    assert note(repository) == "is a named pipe"
    shutil.rmtree(repository / ".git")
    os.mkfifo(repository / ".git")
    assert note(repository) == "is a named pipe"

    (repository / ".git").unlink()
    (tmp_path / "elsewhere").mkdir()
    os.mkfifo(tmp_path / "elsewhere" / "index")
    folder = f"/proc/self/fd/../../../..{tmp_path}/elsewhere"
    for link in ("../elsewhere", f"{tmp_path}/elsewhere", folder):
        (repository / ".git").write_text(f"gitdir: {link}\n")
        assert note(repository) == "is a named pipe"


@pytest.mark.parametrize("link", ["", "gitdir: ../gone", "gitdir: a\0b", "x", "gitdir: /dev/zero"])
def test_index_link_to_no_folder_is_said(tmp_path: Path, link: str) -> None:
    (tmp_path / ".git").write_text(link)
    assert note(tmp_path) == "is not found: .git does not name a folder"
    (tmp_path / ".git").write_text("gitdir: " + "x" * 10_000)
    assert note(tmp_path) == "is larger than 8 KiB"


def test_user_ignore_file_is_that_of_no_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run_git(repository, "config", "core.excludesFile", "/theirs")
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.chdir(repository)
    assert git.user_ignore_file() == tmp_path / ".config" / "git" / "ignore"
    (tmp_path / ".gitconfig").write_text("[core]\nexcludesFile = ~/mine\n")
    assert git.user_ignore_file() == tmp_path / "mine"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "other"))
    (tmp_path / "other").write_text("[core]\nexcludesFile = ~/other\n")
    assert git.user_ignore_file() == tmp_path / "other"


def test_user_ignore_file_git_that_hangs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "_QUERY_SECONDS", 1)
    monkeypatch.setenv("HOME", str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".gitconfig").write_text("[include]\npath = pipe\n")
    with pytest.raises(UserError, match=r"`git config .*` did not respond within 1 s"):
        git.user_ignore_file()


def commit_all(repository: Path) -> str:
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "all")
    return run_git(repository, "rev-parse", "HEAD").decode()[:12]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two files, one of them in a folder."""
    run_git(tmp_path, "init", "-q")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("one")
    (tmp_path / "README").write_text("text")
    return tmp_path


def test_revision_is_the_commit_and_how_many_files_have_changed(project: Path) -> None:
    assert git.read_revision(project) == "", "there is no commit yet"
    commit = commit_all(project)
    assert git.read_revision(project / "code") == commit
    (project / "code" / "train.py").write_text("two")
    (project / "README").unlink()
    assert git.read_revision(project / "code") == f"{commit}, 1 changed file"
    assert git.read_revision(project / "code" / "train.py") == f"{commit}, 1 changed file"
    assert git.read_revision(project) == f"{commit}, 2 changed files"


def test_revision_of_a_touched_file_is_unchanged(project: Path) -> None:
    commit = commit_all(project)
    os.utime(project / "README", (1, 1))
    assert git.read_revision(project) == commit


def test_revision_of_worktrees_packed_references_and_detached_heads_is_known(
    project: Path,
) -> None:
    commit = commit_all(project)
    run_git(project, "pack-refs", "--all")
    assert git.read_revision(project) == commit
    run_git(project, "worktree", "add", "-q", "-b", "other", str(project / "tree"))
    assert git.read_revision(project / "tree") == commit
    run_git(project, "checkout", "-q", "--detach")
    assert git.read_revision(project) == commit


@pytest.mark.parametrize("head", ["", "ref: ", "ref: refs/../../x", "x" * 40, "\xff"])
def test_revision_of_a_damaged_repository_is_unknown(project: Path, head: str) -> None:
    commit_all(project)
    (project / ".git" / "HEAD").write_text(head)
    assert git.read_revision(project) == ""


def test_revision_outside_a_repository_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert git.read_revision(tmp_path) == ""
