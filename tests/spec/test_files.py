"""Local files of a task: destinations, sources and their errors."""

import pytest

from kubectl_sky.spec.files import LocalFiles, Repository, RepositoryLogin, local_files, repository
from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.validate import validate
from tests.spec.documents import read


def messages(text: str) -> list[str]:
    return [str(found) for document in read("run: x\n" + text) for found in validate(document)]


def test_local_files_workdir_is_first_and_relative_paths_are_below() -> None:
    data = {
        "workdir": "code",
        "file_mounts": {"/data": "./d", "~/.netrc": "~/.netrc", "./in/it": "x", "/b": "gs://b"},
    }
    assert [(one.path, one.source) for one in local_files(data)] == [
        ("~/sky_workdir", "code"),
        ("/data", "./d"),
        ("~/.netrc", "~/.netrc"),
        ("~/sky_workdir/in/it", "x"),
    ]
    assert local_files({"workdir": {"url": "x"}, "file_mounts": {"/a": {"source": "s3://x"}}}) == ()
    assert local_files({"workdir": None, "file_mounts": None}) == ()
    assert local_files({"workdir": "."})[0] == LocalFiles("~/sky_workdir", ".", ("workdir",))


def test_fills_workdir_with_files_below_or_a_repository() -> None:
    texts = ("workdir: .", "workdir: {url: 'https://git.example/x'}", "file_mounts: {a: b}")
    assert all(task_of(*read(text)).fills_workdir for text in texts)
    assert not task_of(*read("file_mounts: {~/data: b, /data: c}")).fills_workdir


@pytest.mark.parametrize("place", ["/a", "~/a", "a", "a/b c", "/tmp/ä", "~/.ssh/id", "/a'b"])
def test_file_mount_destination_is_valid(place: str) -> None:
    assert messages(f'file_mounts: {{"{place}": x}}') == []


WRONG = {
    "/a/": "a mount path does not end with /",
    "": "the destination is empty",
    "~": "write a home directory as ~/…",
    "~root/a": "write a home directory as ~/…",
    "s3://bucket": "files go to a path of the nodes, not to a URL",
    "../a": "a destination must not contain . or ..",
    ".": "a destination must not contain . or ..",
    "/a//b": "a path has no empty parts",
    "/": "a mount path does not end with /",
    "/etc/kubectl-sky/x": "the task's scripts and files are in this folder",
    "/kubectl-sky": "the task's scripts and files are in this folder",
    "/a\\nb": "a path has no control characters",
}


@pytest.mark.parametrize("place", WRONG)
def test_file_mount_invalid_destination_is_error(place: str) -> None:
    (problem,) = messages(f'file_mounts:\n  "{place}": x')
    assert problem.startswith("task.yaml:3:3: file_mounts.")
    assert problem.endswith(f": {WRONG[place]}")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/me/code.git",
        "git@github.com:me/code",
        "ssh://git@h:22/x",
        "http://h:8/x",
    ],
)
def test_workdir_git_url_is_valid(url: str) -> None:
    assert messages(f"workdir: {{url: '{url}', ref: feature/x-1}}") == []


@pytest.mark.parametrize(
    ("url", "shown", "login"),
    [
        ("https://$TOKEN@h/x", "https://h/x", RepositoryLogin(password="TOKEN")),
        ("https://me:${TOKEN}@h/x", "https://h/x", RepositoryLogin("me", "TOKEN")),
        ("https://h/x", "https://h/x", RepositoryLogin()),
    ],
)
def test_workdir_login_is_not_in_the_url(url: str, shown: str, login: RepositoryLogin) -> None:
    assert repository({"url": url, "ref": "v1"}) == Repository(shown, "v1", login)


@pytest.mark.parametrize(
    ("workdir", "wrong"),
    [
        ("{url: ''}", "workdir.url: expected the URL of a git repository"),
        ("{url: --upload-pack=x}", "workdir.url: expected the URL of a git repository"),
        ("{url: 'ext::sh -c x'}", "workdir.url: expected the URL of a git repository"),
        ("{url: /etc}", "workdir.url: expected the URL of a git repository"),
        (
            "{url: 'https://me:pw@h/x'}",
            "workdir.url: the manifests would show the credentials before @",
        ),
        ("{url: 'https://h/x', ref: --x}", "workdir.ref: expected a branch, a tag or a commit"),
        ('{url: "https://h/x", ref: "a\\nb"}', "workdir.ref: expected a branch, a tag or a commit"),
    ],
)
def test_workdir_invalid_git_url_is_error(workdir: str, wrong: str) -> None:
    (problem,) = messages(f"workdir: {workdir}")
    assert wrong in problem


@pytest.mark.parametrize("target", ["~/sky_workdir", "~/sky_workdir/", "."])
def test_file_mount_at_workdir_is_added_to_workdir(target: str) -> None:
    files = local_files({"workdir": ".", "file_mounts": {target: "x"}})
    assert [(item.path, item.source) for item in files] == [
        ("~/sky_workdir", "."),
        ("~/sky_workdir/.", "x"),
    ]


def test_file_mounts_with_same_target_are_error() -> None:
    (problem,) = messages("file_mounts:\n  a: x\n  ~/sky_workdir/a: y")
    assert (
        problem == 'task.yaml:4:3: file_mounts."~/sky_workdir/a": other files have the same target'
    )
    (problem,) = messages("volumes: {/a: v}\nfile_mounts:\n  /a: x")
    assert problem == "task.yaml:4:3: file_mounts./a: a volume has the same target"
    (problem,) = messages("volumes: {~/sky_workdir/a: v}\nfile_mounts:\n  a: x")
    assert problem == "task.yaml:4:3: file_mounts.a: a volume has the same target"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("workdir: ''", "workdir: the path is empty; '.' is the current folder"),
        ("workdir: https://x/y", "workdir: expected a local folder; write workdir:"),
        ("file_mounts: {/a: ''}", "file_mounts./a: the path is empty"),
    ],
)
def test_file_mount_invalid_source_is_error(text: str, wrong: str) -> None:
    (problem,) = messages(text)
    assert wrong in problem
