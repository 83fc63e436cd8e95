"""Buckets on nodes: init containers, CSI drivers and PVCs."""

from dataclasses import replace as replace_bucket
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.actions.config import read
from kubectl_sky.errors import UserError
from kubectl_sky.plan import buckets, resolve
from kubectl_sky.plan.buckets import Way
from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec.buckets import Bucket, Sync
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.spec.task import Resources
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_plan, make_task

KEYS = {"secret": "keys", "region": "eu-1", "options": {"force_path_style": True}}


def plan(*found: Bucket, settings: Settings | None = None) -> Plan:
    return make_plan(replace(make_task(), buckets=found), FACTS, settings)


def test_bucket_copy_becomes_init_container() -> None:
    made = plan(Bucket("~/in", "s3", "b/p"), settings=Settings(stores={"s3": KEYS}))
    (download,) = made.storage.downloads
    assert (download.image, download.secret) == ("docker.io/rclone/rclone:1.68.2", "keys")
    assert download.env == {
        "KUBECTL_SKY_SOURCE": "s3://b/p",
        "KUBECTL_SKY_SCRATCH": "/kubectl-sky/fetched",
        "KUBECTL_SKY_PROGRAM": "rclone",
        "KUBECTL_SKY_LOCATION": "b/p",
        "KUBECTL_SKY_PREFIX": "p",
        "RCLONE_CONFIG_SRC_TYPE": "s3",
        "RCLONE_CONFIG_SRC_PROVIDER": "AWS",
        "RCLONE_CONFIG_SRC_ENV_AUTH": "true",
        "RCLONE_CONFIG_SRC_REGION": "eu-1",
        "RCLONE_CONFIG_SRC_FORCE_PATH_STYLE": "True",
    }

    (mount,) = made.storage.mounts
    assert (mount.path, mount.sub_path) == ("/kubectl-sky/home/bucket-0", "data")
    assert made.storage.links == {"in": "/kubectl-sky/home/bucket-0"}
    assert made.storage.download_volumes == ("bucket-0",)
    assert made.runtime and "fetch.sh" in made.runtime.scripts


def test_bucket_web_file_is_downloaded_in_image_of_task() -> None:
    (download,) = plan(Bucket("/a", "https", "https://x.org/a")).storage.downloads
    assert (download.image, download.secret) == ("python:3.13-slim", None)
    assert set(download.env) == {"KUBECTL_SKY_SOURCE", "KUBECTL_SKY_SCRATCH"}


def test_bucket_hugging_face_uses_token_of_task() -> None:
    task = replace(
        make_task(),
        buckets=(Bucket("/m", "hf", "org/m@v 1/a b$(X)"), Bucket("/b", "hf", "buckets/me/box")),
        envs={"HF_ENDPOINT": "http://mirror", "HF_TOKEN": "seen by all"},
        secrets={"HF_TOKEN": Secret("x"), "OTHER": Secret("y")},
    )
    stores = {"hf": {"endpoint": "http://other", "secret": "hf-keys"}}
    made = make_plan(task, FACTS, Settings(stores=stores))

    model, box = made.storage.downloads
    assert model.env == {
        "KUBECTL_SKY_SOURCE": "hf://org/m@v 1/a b$(X)",
        "KUBECTL_SKY_SCRATCH": "/kubectl-sky/fetched",
        "KUBECTL_SKY_TREE": "/api/models/org/m/tree/v%201",
        "KUBECTL_SKY_RESOLVE": "/org/m/resolve/v%201",
        "KUBECTL_SKY_PREFIX": "a b$$(X)",
        "HF_ENDPOINT": "http://mirror",
    }
    assert (model.image, model.secret) == ("python:3.13-slim", "hf-keys")
    assert [(one.name, one.secret, one.key) for one in model.tokens] == [
        ("HF_TOKEN", made.name, "HF_TOKEN")
    ]
    assert box.env["KUBECTL_SKY_TREE"] == "/api/buckets/me/box/tree"
    assert box.env["KUBECTL_SKY_RESOLVE"] == "/buckets/me/box/resolve"
    assert made.runtime and {"fetch.sh", "hub.py"} < made.runtime.scripts.keys()


def test_bucket_hugging_face_settings_choose_image_and_token() -> None:
    task = replace(
        make_task(), buckets=(Bucket("/m", "hf", "org/m"),), envs={"HF_TOKEN": "seen by all"}
    )
    (download,) = make_plan(task, FACTS).storage.downloads
    assert download.env["HF_TOKEN"] == "seen by all"
    task = replace(task, envs={}, secrets={"HF_TOKEN": Secret("x")})
    settings = Settings(stores={"hf": {"image": "other", "anonymous": True}})
    (download,) = make_plan(task, FACTS, settings).storage.downloads
    assert (download.image, download.tokens) == ("other", ())
    with pytest.raises(
        UserError, match="no CSI driver or PVC is configured to mount hf://buckets/me/b"
    ):
        plan(Bucket("/m", "hf", "buckets/me/b", "MOUNT"))


@pytest.mark.parametrize(
    ("bucket", "store", "expected"),
    [
        (Bucket("/a", "azure", "b", account="me"), {}, {"ACCOUNT": "me"}),
        (
            Bucket("/a", "ibm", "b", account="us-east"),
            {},
            {"ENDPOINT": "https://s3.us-east.cloud-object-storage.appdomain.cloud"},
        ),
        (Bucket("/a", "gcs", "b"), {"anonymous": True}, {"ANONYMOUS": "true"}),
        (Bucket("/a", "s3", "b"), {"anonymous": True}, {"ENV_AUTH": "false"}),
        (Bucket("/a", "r2", "b"), {"endpoint": "https://x"}, {"ENDPOINT": "https://x"}),
        (
            Bucket("/a", "nebius", "b"),
            {"region": "eu-1"},
            {"ENDPOINT": "https://storage.eu-1.nebius.cloud", "REGION": "eu-1"},
        ),
        (
            Bucket("/a", "azure", "b"),
            {"options": {"account": "me"}},
            {"ACCOUNT": "me"},
        ),
    ],
)
def test_bucket_store_settings_become_rclone_variables(
    bucket: Bucket, store: dict[str, object], expected: dict[str, str]
) -> None:
    (download,) = plan(bucket, settings=Settings(stores={bucket.store: store})).storage.downloads
    for name, value in expected.items():
        assert download.env[f"RCLONE_CONFIG_SRC_{name}"] == value


@pytest.mark.parametrize(
    ("store", "provider"),
    [
        ({"region": "eu-1"}, "AWS"),
        ({"endpoint": "https://s3.eu-west-1.amazonaws.com"}, "AWS"),
        ({"endpoint": "http://minio.storage:9000"}, "Other"),
        ({"options": {"endpoint": "http://minio.storage:9000"}}, "Other"),
        ({"endpoint": "http://minio.storage:9000", "options": {"provider": "Minio"}}, "Minio"),
    ],
)
def test_bucket_s3_with_endpoint_of_another_server_is_addressed_by_path(
    store: dict[str, object], provider: str
) -> None:
    """rclone's provider AWS takes the bucket for a host name."""
    made = plan(Bucket("/a", "s3", "b"), settings=Settings(stores={"s3": store}))
    (download,) = made.storage.downloads
    assert download.env["RCLONE_CONFIG_SRC_PROVIDER"] == provider


SYNC_VARIABLES = tuple(f"KUBECTL_SKY_{name}" for name in ("SYNC", "INCLUDE", "DELETE", "DISK"))
CSI = {"driver": "d", "attributes": {"b": "{bucket}", "o": "{prefix}/{account}"}, "secret": "s"}
MOUNT = Bucket("/a", "s3", "b/p", "MOUNT", read_only=True)
BOX = {"store": "s3", "location": "b", "mode": "MOUNT"}


def test_bucket_mount_uses_csi_driver() -> None:
    made = plan(MOUNT, settings=Settings(stores={"s3": {"csi": CSI}})).storage
    (csi_volume,) = made.csi_volumes
    assert csi_volume.attributes == {"b": "b", "o": "p/"}
    assert (csi_volume.driver, csi_volume.secret, csi_volume.read_only) == ("d", "s", True)
    assert (made.downloads, made.download_volumes, made.mounts[0].sub_path) == ((), (), None)
    plain = plan(MOUNT, settings=Settings(stores={"s3": {"csi": {"driver": "d"}}})).storage
    assert plain.mounts[0].sub_path == "p"


def test_bucket_mount_uses_pvc() -> None:
    made = plan(MOUNT, settings=Settings(stores={"s3": {"claims": {"b": "c"}}})).storage
    assert made.pvcs == {"bucket-0": "c"}
    assert (made.mounts[0].sub_path, made.mounts[0].read_only) == ("p", True)


@pytest.mark.parametrize(
    ("bucket", "message"),
    [
        (Bucket("/a", "hf", "buckets/me/b", "MOUNT"), r"no CSI driver or PVC is configured"),
        (Bucket("/a", "nebius", "b"), 'the endpoint of store "nebius" is not set'),
        (Bucket("/a", "azure", "b"), 'the account of store "azure" is not set'),
    ],
)
def test_bucket_missing_setting_is_user_error(bucket: Bucket, message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(bucket)


def test_bucket_mount_without_driver_is_synced_by_sidecar() -> None:
    named = Bucket("~/o", "", "out", "MOUNT_CACHED", by_name=True)
    bucket = replace_bucket(MOUNT, read_only=False)
    made = plan(bucket, named, settings=Settings(stores={"s3": KEYS}))
    first, second = made.storage.downloads
    assert first.writes_back and second.writes_back
    assert first.env["KUBECTL_SKY_SYNC"] == "all" and "KUBECTL_SKY_CREATE" not in first.env
    assert (second.env["KUBECTL_SKY_SYNC"], second.env["KUBECTL_SKY_CREATE"]) == ("newest", "out")
    assert [(mount.path, mount.sub_path) for mount in made.storage.mounts] == [
        ("/a", "data"),
        ("/kubectl-sky/sync/bucket-0", "sync"),
        ("/kubectl-sky/home/bucket-1", "data"),
        ("/kubectl-sky/sync/bucket-1", "sync"),
    ]
    assert made.runtime and {"fetch.sh", "sync.sh", "written.sh"} <= made.runtime.scripts.keys()


@pytest.mark.parametrize(
    ("bucket", "settings", "way"),
    [
        ({}, Settings(), Way.SYNCED),
        ({"mode": "COPY"}, Settings(bucket_mode="sync"), Way.COPIED),
        ({"read_only": True}, Settings(), Way.COPIED),
        ({"store": "hf", "location": "org/model"}, Settings(), Way.COPIED),
        ({}, Settings(bucket_mode="copy"), Way.COPIED),
        ({}, Settings(stores={"s3": {"claims": {"b": "c"}}}), Way.MOUNTED),
        ({}, Settings(stores={"s3": {"claims": {"x": "c"}}}), Way.SYNCED),
        ({}, Settings(stores={"s3": {"csi": {"driver": "d"}}}, bucket_mode="sync"), Way.SYNCED),
    ],
)
def test_bucket_way_depends_on_mode_and_settings(
    bucket: dict[str, Any], settings: Settings, way: Way
) -> None:
    assert buckets.find_way(Bucket("/a", **BOX | bucket), settings) is way


def test_bucket_sync_that_settings_refuse_is_user_error() -> None:
    with pytest.raises(UserError, match=r"to mount s3://b/p .*, and the settings refuse sync"):
        plan(replace_bucket(MOUNT, read_only=False), settings=Settings(refuse=["sync"]))


@pytest.mark.parametrize(
    ("secrets", "settings", "store"),
    [
        ({}, Settings(), "s3"),
        ({}, Settings(stores={"gcs": {"secret": "k"}, "hf": {}}), "gcs"),
        ({"AWS_ACCESS_KEY_ID": Secret("x")}, Settings(stores={"gcs": {"secret": "k"}}), "s3"),
        ({}, Settings(stores={"gcs": {"secret": "k"}}, default_store="s3"), "s3"),
    ],
)
def test_bucket_without_store_uses_store_of_credentials(
    secrets: dict[str, Secret], settings: Settings, store: str
) -> None:
    task = replace(make_task(), buckets=(Bucket("/a", "", "b", by_name=True),), secrets=secrets)
    (download,) = make_plan(task, FACTS, settings).storage.downloads
    assert download.env["KUBECTL_SKY_SOURCE"] == f"{'gs' if store == 'gcs' else store}://b"
    assert [item.name for item in download.tokens] == list(secrets)
    (note,) = buckets.notes(task, settings)
    assert note == f'file_mounts./a: bucket "b" names no store; {store} is used'


def test_bucket_filled_from_file_is_user_error() -> None:
    files = (LocalFiles("/a", "./x", ("file_mounts", "/a", "source")),)
    task = replace(make_task(), buckets=(Bucket("/a", "s3", "b", "MOUNT"),), files=files)
    facts = replace(FACTS, archives={"/a": Archive(folder=False, digest="", files=1, size=1)})
    with pytest.raises(UserError, match="is a file, and a bucket is filled from a folder"):
        make_plan(task, facts)


def test_bucket_sync_settings_become_variables() -> None:
    sync = Sync("newest", ("step-9*/**", "$(X)"), delete=True)
    bucket = Bucket("/a", "s3", "box", "MOUNT", sync=sync)
    other = Bucket("/b", "s3", "box", "MOUNT_CACHED")
    task = replace(make_task(), buckets=(bucket, other), resources=Resources(disk="2k"))
    first, second = make_plan(task, FACTS).storage.downloads
    assert {name: value for name, value in first.env.items() if name in SYNC_VARIABLES} == {
        "KUBECTL_SKY_SYNC": "newest",
        "KUBECTL_SKY_INCLUDE": "step-9*/**\n$$(X)",
        "KUBECTL_SKY_DELETE": "yes",
        "KUBECTL_SKY_DISK": "1000",
    }
    assert second.env["KUBECTL_SKY_DISK"] == "1000" and "KUBECTL_SKY_DELETE" not in second.env


def test_bucket_sync_note_is_one_line_for_all_tasks() -> None:
    paths = ["/data", "~/out", "/data", "/x"]
    tasks = [replace(make_task(), buckets=(Bucket(path, "s3", "b", "MOUNT"),)) for path in paths]
    (note,) = buckets.sync_notes([*tasks, make_task()], Settings())
    assert note == (
        "file_mounts (/data, ~/out and 1 more): synced, not mounted: written back every minute;"
        " see docs/files.md"
    )
    assert list(buckets.sync_notes(tasks, Settings(bucket_mode="copy"))) == []


@pytest.mark.parametrize(
    "bucket",
    [
        MOUNT,
        Bucket("/a", "gcs", "b", "MOUNT_CACHED"),
        Bucket("/a", "", 'b"x', "MOUNT"),
        Bucket("/a", "nebius", "b"),
        Bucket("/a", "azure", "b", "MOUNT", account="me"),
    ],
)
def test_bucket_hint_of_missing_setting_is_valid_yaml(bucket: Bucket) -> None:
    task = replace(make_task(), buckets=(bucket,))
    text = ""
    for _ in range(2):  # the second error may be about the store set by the first hint
        for error in resolve.find_refusals(task, read(text.encode(), "settings.yaml")):
            text += error.hint.partition("settings.yaml: ")[2].replace("…", "x") + "\n"
    assert plan(bucket, settings=read(text.encode(), "settings.yaml")).storage


def test_bucket_mode_copy_setting_copies_mounts() -> None:
    copying = Settings(bucket_mode="copy", default_store="s3")
    assert plan(MOUNT, Bucket("/b", "", "c", "MOUNT"), settings=copying).storage.downloads
    task = replace(make_task(), buckets=(MOUNT, Bucket("/b", "", "c", "MOUNT")))
    chosen, mounted, named = buckets.notes(task, copying)
    assert chosen == 'file_mounts./b: bucket "c" names no store; s3 is used'
    assert mounted == "file_mounts./a: s3://b/p is copied, not mounted"
    assert named.startswith("file_mounts./b: s3://c is copied, not mounted; what the task writes")
