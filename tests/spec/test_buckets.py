"""Buckets and URLs of file_mounts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec import buckets
from kubectl_sky.spec.buckets import STORES, Bucket, Sync
from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.spec.validate import validate
from tests.spec.documents import make_document, problems, read

BUCKETS: list[tuple[Any, Bucket]] = [
    ("s3://box/p/q", Bucket("/a", "s3", "box/p/q")),
    ("GS://box", Bucket("/a", "gcs", "box")),
    ("nebius://box", Bucket("/a", "nebius", "box")),
    ("cos://us-east/box/p", Bucket("/a", "ibm", "box/p", account="us-east")),
    (
        "https://acct.blob.core.windows.net/box/p",
        Bucket("/a", "azure", "box/p", account="acct"),
    ),
    ("https://x.org/a.txt?k=v", Bucket("/a", "https", "https://x.org/a.txt?k=v")),
    ({"source": "r2://box"}, Bucket("/a", "r2", "box", "MOUNT")),
    ({"source": "s3://box", "mode": "copy"}, Bucket("/a", "s3", "box", "COPY")),
    ({"name": "box", "store": "GCS"}, Bucket("/a", "gcs", "box", "MOUNT", by_name=True)),
    ({"name": "box", "mode": "MOUNT"}, Bucket("/a", "", "box", "MOUNT", by_name=True)),
    (
        {"source": "s3://box", "config": {"mount": {"read_only": True}}},
        Bucket("/a", "s3", "box", "MOUNT", read_only=True),
    ),
]


@pytest.mark.parametrize(("source", "expected"), BUCKETS)
def test_bucket_source_is_parsed(source: Any, expected: Bucket) -> None:
    document = make_document(file_mounts={"/a": source, "/local": "./x"})
    assert [one for one in validate(document) if one.severity == "error"] == []
    assert refusals(document) == []
    (found,) = task_of(document).buckets
    assert found == expected


def test_bucket_url_is_as_written() -> None:
    azure = "https://acct.blob.core.windows.net/box/p"
    for url in ("s3://box/p", "cos://us-east/box/p", azure, "https://x.org/a.txt"):
        (bucket,) = task_of(make_document(file_mounts={"x": url})).buckets
        assert (bucket.url, bucket.path) == (url, "~/sky_workdir/x")
    assert Bucket("/a", "", "box").url == "…://box"


REFUSED = {
    "file_mounts: {/a: 's4://box'}": (
        "task.yaml:2:15: file_mounts./a: not supported: no store is known by s4://;"
        f" such as {', '.join(STORES)}"
    ),
    "file_mounts: {/a: 'cos://us-east'}": (
        "task.yaml:2:15: file_mounts./a: not supported: the URL names no bucket;"
        " such as s3://my-bucket/data"
    ),
    "file_mounts: {/a: 's3://$BOX/x'}": (
        "task.yaml:2:15: file_mounts./a: not supported: the bucket's name has a variable that is"
        " not set; set it in envs"
    ),
    "file_mounts: {/a: 'hf://model'}": (
        "task.yaml:2:15: file_mounts./a: not supported: this is no place on Hugging Face's"
        f" Hub; such as {buckets._HUB_EXAMPLES}"
    ),
    "file_mounts: {/a: {name: box, store: hf}}": (
        "task.yaml:2:20: file_mounts./a.name: not supported: this is no place on Hugging"
        f" Face's Hub; such as {buckets._HUB_EXAMPLES}"
    ),
    "file_mounts: {/a: {source: ./x}}": (
        "task.yaml:2:15: file_mounts./a: not supported: the bucket has no name; such as"
        " name: my-bucket"
    ),
    "file_mounts: {/a: {name: Bad_Name, store: s3}}": (
        'task.yaml:2:20: file_mounts./a.name: not supported: "Bad_Name" is not a valid bucket name'
        " of store s3; use 3 to 63 lower-case letters, digits, dots and hyphens; the first and"
        " last no dot or hyphen"
    ),
    "file_mounts: {/a: {name: 's3://b', store: s3}}": (
        "task.yaml:2:20: file_mounts./a.name: not supported: a name is no URL; write source: s3://b"
    ),
    "file_mounts: {/a: {name: b, store: volume}}": (
        "task.yaml:2:29: file_mounts./a.store: not supported: it applies to disks of GCP;"
        " write volumes"
    ),
    "secrets: {KEY: x}\nfile_mounts: {/a: 'https://x.org/?k=$KEY'}": (
        "task.yaml:3:15: file_mounts./a: not supported: the manifests would show a"
        " secret's value; write the bucket's name; credentials belong in the settings, in stores"
    ),
    "secrets: {KEY: s3://x}\nfile_mounts: {/$KEY: $KEY}": (
        'task.yaml:3:15: file_mounts."/$KEY": not supported: the manifests would show a'
        " secret's value; write the bucket's name; credentials belong in the settings, in stores"
    ),
}


@pytest.mark.parametrize("field", REFUSED)
def test_bucket_unsupported_source_is_refused(field: str) -> None:
    (document,) = read("run: x\n" + field)
    assert [str(one) for one in refusals(document)] == [REFUSED[field]]


@pytest.mark.parametrize(
    ("url", "is_valid"),
    [
        ("s3://my.bucket-1", True),
        ("s3://ev", False),
        ("s3://My_Old.Bucket/x", True),
        ("s3://a b", False),
        ("r2://xx-", False),
        ("r2://a.b", False),
        ("gs://my_bucket", True),
        ("oci://My_Bucket", True),
        ("https://acct.blob.core.windows.net/a-b/c_d", True),
        ("https://acct.blob.core.windows.net/a--b", False),
        ("hf://buckets/Me/b_x", True),
    ],
)
def test_bucket_name_follows_the_rules_of_its_store(url: str, is_valid: bool) -> None:
    found = refusals(make_document(file_mounts={"/a": url}))
    assert ["is not a valid bucket name" in one.message for one in found] == [True] * (not is_valid)


def test_bucket_name_and_store_of_another_than_its_source_are_warned() -> None:
    text = "run: x\nfile_mounts: {/a/: {name: b, source: 's3://bcd/d', store: gcs}}\n"
    assert problems(text) == ["task.yaml:2:15: file_mounts./a/: a mount path does not end with /"]
    assert problems(text, "warning") == [
        'task.yaml:2:27: file_mounts./a/.name: warning: ignored: source is of "bcd"; remove it,'
        " or change source",
        'task.yaml:2:59: file_mounts./a/.store: warning: ignored: source is of "s3"; remove it,'
        " or change source",
    ]
    same = make_document(file_mounts={"/a": {"name": "bcd", "source": "s3://bcd/d", "store": "S3"}})
    assert validate(same) == []


def test_bucket_source_that_is_empty_names_the_variable() -> None:
    text = "run: x\nenvs: {BOX: ''}\nfile_mounts: {/a: {source: '${BOX}'}}\n"
    assert problems(text) == [
        "task.yaml:3:28: file_mounts./a.source: the variable BOX is empty; set it in envs, or with"
        " --env BOX=VALUE"
    ]


SYNCED = "run: x\nfile_mounts:\n  /a: {name: box, mode: MOUNT}\n  /b: {name: box, mode: COPY}\n"


def test_bucket_sync_is_read() -> None:
    (document,) = read(f"{SYNCED}config: {{kubectl_sky: {{sync: {{/a: {{delete: true}}}}}}}}\n")
    assert validate(document) == []
    first, second = task_of(document).buckets
    assert (first.sync, first.download, second.sync) == (Sync(delete=True), "newest", Sync())


def test_bucket_sync_path_is_read_without_slash_at_its_end() -> None:
    (document,) = read(f"{SYNCED}config: {{kubectl_sky: {{sync: {{/a/: {{delete: true}}}}}}}}\n")
    assert validate(document) == []
    assert task_of(document).buckets[0].sync == Sync(delete=True)


@pytest.mark.parametrize("pattern", ["#a", " ;a"])
def test_bucket_sync_pattern_that_is_a_comment_for_rclone_is_error(pattern: str) -> None:
    sync = f"{{/a: {{include: ['{pattern}']}}}}"
    (problem,) = problems(f"{SYNCED}config: {{kubectl_sky: {{sync: {sync}}}}}\n")
    assert "expected a pattern such as step-9*/**; [#] for # at its start" in problem


@pytest.mark.parametrize("path", ["/b", "/c"])
def test_bucket_sync_of_a_path_without_mounted_bucket_is_error(path: str) -> None:
    text = f"{SYNCED}config: {{kubectl_sky: {{sync: {{{path}: {{download: none}}}}}}}}\n"
    assert problems(text) == [
        f"task.yaml:5:31: config.kubectl_sky.sync.{path}: no bucket is mounted at this path;"
        " write a path of file_mounts"
    ]


@pytest.mark.parametrize(
    ("bucket", "download"),
    [
        (Bucket("/a", "s3", "box", "MOUNT"), "all"),
        (Bucket("/a", "s3", "box", "MOUNT_CACHED"), "newest"),
        (Bucket("/a", "s3", "box", "MOUNT", by_name=True), "newest"),
        (Bucket("/a", "s3", "box", "MOUNT_CACHED", sync=Sync("none")), "none"),
    ],
)
def test_bucket_download_follows_what_it_is_for(bucket: Bucket, download: str) -> None:
    assert bucket.download == download


LOCAL: list[tuple[Any, list[tuple[str, str]]]] = [
    ({"name": "box", "source": "./dir", "mode": "COPY"}, [("/a", "./dir")]),
    ({"source": "~/dir", "store": "s3", "mode": "copy"}, [("/a", "~/dir")]),
    (
        {"name": "box", "source": ["./x.txt", "y/z"], "mode": "COPY"},
        [("/a/x.txt", "./x.txt"), ("/a/z", "y/z")],
    ),
]


@pytest.mark.parametrize(("mount", "expected"), LOCAL)
def test_bucket_copy_of_local_files_is_uploaded(
    mount: Any, expected: list[tuple[str, str]]
) -> None:
    document = make_document(file_mounts={"/a": mount})
    assert refusals(document) == []
    task = task_of(document)
    assert ([(item.path, item.source) for item in task.files], task.buckets) == (expected, ())
    (warning,) = validate(document)
    assert warning.path == f"file_mounts./a.{'name' if 'name' in mount else 'store'}"
    assert warning.message == "ignored: no bucket is created; the nodes get the local files"


@pytest.mark.parametrize(
    "source", [["./dir", "s3://c"], ["/"], [".."], pytest.param(["s3://c"], id="url")]
)
@pytest.mark.parametrize("mode", ["COPY", "MOUNT"])
def test_bucket_of_list_without_names_is_refused(source: list[str], mode: str) -> None:
    mount = {"name": "box", "source": source, "mode": mode}
    (problem,) = refusals(make_document(file_mounts={"/a": mount}))
    assert "a list has files and folders with a name only" in problem.message


@pytest.mark.parametrize("mode", ["MOUNT", "MOUNT_CACHED", None])
def test_bucket_to_mount_is_filled_from_local_files(mode: str | None) -> None:
    mount = {"name": "box", "source": ["./x.txt", "y/z"], "mode": mode}
    document = make_document(file_mounts={"/a": mount})
    assert (refusals(document), list(validate(document))) == ([], [])
    task = task_of(document)
    assert [(item.path, item.source) for item in task.files] == [
        ("/a/x.txt", "./x.txt"),
        ("/a/z", "y/z"),
    ]
    assert task.buckets == (Bucket("/a", "", "box", mode or "MOUNT", by_name=True),)


@pytest.mark.parametrize(
    "mounts",
    [
        "/a: {name: b, source: [x/f, y/f], mode: COPY}",
        "/a/f: ./f, /a: {name: b, source: [f], mode: COPY}",
    ],
)
def test_file_mounts_with_same_destination_are_refused(mounts: str) -> None:
    (problem,) = problems(f"run: x\nfile_mounts: {{{mounts}}}\n")
    assert problem.endswith("file_mounts./a.source: other files are uploaded to /a/f, too")


def test_bucket_with_relative_path_keeps_key() -> None:
    (bucket,) = task_of(make_document(file_mounts={"data": "s3://box"})).buckets
    assert (bucket.path, bucket.key) == ("~/sky_workdir/data", "data")


def test_bucket_mount_path_with_colon_is_error() -> None:
    assert problems("run: x\nfile_mounts: {'/a:b': 's3://box'}") == [
        'task.yaml:2:15: file_mounts."/a:b": a mount path cannot hold a colon'
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/model", ("models", "org/model", "main", "")),
        ("org/model@v1/a/b", ("models", "org/model", "v1", "a/b")),
        ("org/model@refs/pr/1/a", ("models", "org/model", "refs/pr/1", "a")),
        ("org/model@refs%2Fpr%2F1/", ("models", "org/model", "refs/pr/1", "")),
        ("datasets/o/d", ("datasets", "o/d", "main", "")),
        ("spaces/o/s@x", ("spaces", "o/s", "x", "")),
        ("buckets/me/box/a b", ("buckets", "me/box", "main", "a b")),
        *((wrong, None) for wrong in ("", "org", "/org/x", "org/..", "org/x/../y", "org/x//y")),
        *((wrong, None) for wrong in ("buckets/me/box@1", "o/x@", "o/x/a\nb", "datasets/o", "o/é")),
    ],
)
def test_hub_path_is_parsed(text: str, expected: tuple[str, ...] | None) -> None:
    assert buckets.hub_path(text) == (buckets.HubPath(*expected) if expected else None)


def test_hub_bucket_by_name_is_parsed() -> None:
    mount = {"name": "me/box", "store": "HF", "mode": "COPY"}
    (bucket,) = task_of(make_document(file_mounts={"/a": mount})).buckets
    assert (bucket.location, bucket.name, bucket.prefix) == ("buckets/me/box", "me/box", "")
    assert bucket.url == "hf://buckets/me/box"


URLS = st.builds("{}://{}".format, st.sampled_from([*STORES, "x"]), st.text())
SOURCES: st.SearchStrategy[Any] = URLS | st.fixed_dictionaries(
    {},
    optional={
        "name": st.text() | st.none(),
        "source": URLS | st.text() | st.lists(st.text()) | st.none(),
        "store": st.sampled_from(["S3", "gcs", "volume", "?"]) | st.none(),
        "mode": st.sampled_from(["COPY", "mount", "MOUNT_CACHED", "?"]) | st.none(),
        "config": st.none() | st.fixed_dictionaries({"mount": st.none() | st.just({})}),
    },
)


@given(st.dictionaries(st.text() | st.just("/data"), SOURCES, max_size=3))
def test_bucket_random_mounts_are_parsed_or_refused(mounts: dict[str, Any]) -> None:
    document = make_document(file_mounts=mounts)
    errors = [one for one in validate(document) if one.severity == "error"]
    if not errors and not refusals(document):
        for bucket in task_of(document).buckets:
            assert bucket.name or bucket.store == "https"
            assert bucket.path.startswith(("/", "~/"))
