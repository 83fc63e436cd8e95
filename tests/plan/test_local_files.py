"""Transfer of local files, by size and content."""

import pytest
import yaml
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan.local_files import MAX_BYTES, MAX_TOTAL_BYTES
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.files import WORKDIR, LocalFiles
from kubectl_sky.words import names
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.owners import User
from tests.builders import FACTS, make_plan, make_task


def make_files(**sizes: int) -> tuple[tuple[LocalFiles, ...], dict[str, Archive]]:
    """Return folders with these archive sizes; 0 means too large to keep."""
    files = tuple(LocalFiles(f"/{name}", name, ("file_mounts", name)) for name in sizes)
    archives = {
        f"/{name}": Archive(True, f"digest-{name}", 3, 10 * size, bytes(size))
        for name, size in sizes.items()
    }
    return files, archives


def make(**sizes: int) -> Plan:
    files, archives = make_files(**sizes)
    return make_plan(replace(make_task(), files=files), replace(FACTS, archives=archives))


def test_file_transfer_without_files_has_no_objects() -> None:
    plan = make()
    assert (
        plan.file_transfer.config_maps,
        plan.file_transfer.secret,
        plan.file_transfer.large_files,
    ) == ((), {}, {})
    assert "files.txt" not in plan.scripts
    assert "kubectl-sky/files" not in plan.annotations


def test_file_transfer_small_files_share_config_map() -> None:
    plan = make(a=10, b=20)
    (config_map,) = plan.file_transfer.config_maps
    assert {key: len(data) for key, data in config_map.parts.items()} == {
        "files-000-000": 10,
        "files-001-000": 20,
    }
    assert plan.scripts["files.txt"] == "000 /a\n001 /b\n"


def test_file_transfer_large_file_is_split_over_config_maps() -> None:
    plan = make(a=MAX_BYTES + 1, b=5, c=MAX_BYTES)
    kept = [
        {key: len(data) for key, data in one.parts.items()}
        for one in plan.file_transfer.config_maps
    ]
    assert kept == [
        {"files-000-000": MAX_BYTES},
        {"files-000-001": 1, "files-001-000": 5},
        {"files-002-000": MAX_BYTES},
    ]


def test_pod_awaiting_upload_has_startup_probe_unless_user_sets_one() -> None:
    plan = make(a=10)
    assert (plan.pod_annotations, plan.checks) == ({}, ())
    files, archives = make_files(a=5 * MAX_BYTES)
    task = replace(make_task(), files=files)
    facts = replace(FACTS, archives=archives)
    plan = make_plan(task, facts)
    assert plan.pod_annotations == {names.AWAITS_UPLOAD: "true"}
    assert [check.name for check in plan.checks] == ["startupProbe"]
    probe = {"startupProbe": {"tcpSocket": {"port": 80}}}
    options = replace(task.kubernetes, pod={"spec": {"containers": [probe]}})
    plan = make_plan(replace(task, kubernetes=options), facts)
    assert (plan.pod_annotations, plan.checks) == ({}, ())


def test_file_transfer_too_large_files_are_streamed() -> None:
    plan = make(a=0, b=5, c=MAX_TOTAL_BYTES)
    assert [one.path for one in plan.file_transfer.large_files.values()] == ["/a", "/c"]
    assert [list(one.parts) for one in plan.file_transfer.config_maps] == [["files-001-000"]]


def test_file_transfer_same_files_have_same_name_per_user() -> None:
    files, archives = make_files(a=10)
    task = replace(make_task(), files=files)
    facts = replace(FACTS, archives=archives)
    (name,) = {one.name for one in make_plan(task, facts).file_transfer.config_maps}
    other = replace(make_task(nodes=3), name="other", files=files)
    assert {one.name for one in make_plan(other, facts).file_transfer.config_maps} == {name}
    bob = replace(facts, user=User("bob"))
    assert {one.name for one in make_plan(task, bob).file_transfer.config_maps} != {name}
    changed = replace(facts, archives={"/a": replace(archives["/a"], data=b"x" * 10)})
    assert {one.name for one in make_plan(task, changed).file_transfer.config_maps} != {name}


def test_file_transfer_single_file_is_unpacked_in_parent_folder() -> None:
    unpack_paths = {"/a": "/", "~/b": "~", "~/c/d": "~/c", WORKDIR: "~/sky_workdir"}
    files = tuple(LocalFiles(path, "x", ("file_mounts", path)) for path in unpack_paths)
    archives = {path: Archive(path == WORKDIR, "d", 1, 1, b"x") for path in unpack_paths}
    task = replace(make_task(), files=files)
    scripts = make_plan(task, replace(FACTS, archives=archives)).scripts
    assert scripts["files.txt"].split("\n") == [
        *(f"{number:03} {place}" for number, place in enumerate(unpack_paths.values())),
        "",
    ]


@pytest.mark.parametrize(
    ("path", "source", "secret"),
    [
        ("~/.ssh", "x", True),
        ("/root/.netrc", "x", True),
        ("/x", "~/.aws/credentials", True),
        ("~/.config/gcloud", "x", True),
        ("~/.config/other", "x", False),
        ("~/x.ssh", "x", False),
        ("/gcloud", "x", False),
    ],
)
def test_file_transfer_credentials_use_secret(path: str, source: str, secret: bool) -> None:
    files = (LocalFiles(path, source, ("file_mounts", path)),)
    archives = {path: Archive(False, "abc123", 1, 1, b"\x1fkey")}
    plan = make_plan(replace(make_task(), files=files), replace(FACTS, archives=archives))
    assert bool(plan.file_transfer.secret) == secret
    assert bool(plan.file_transfer.config_maps) != secret
    assert ("abc123" in plan.annotations["kubectl-sky/files"]) != secret
    written = manifests.as_yaml(manifests.render(manifests.redact(plan)).all)
    assert ("H2tleQ==" in written) != secret
    kinds = [one["kind"] for one in yaml.safe_load_all(written)]
    maps = ["ConfigMap"] * (2 if secret else 3)  # the first has the runtime
    assert kinds == [*maps, *(["Secret"] if secret else []), "Job"]


@pytest.mark.parametrize("size", [0, MAX_BYTES + 1])
def test_file_transfer_too_large_credentials_are_refused(size: int) -> None:
    files = (LocalFiles("~/.aws", "keys", ("file_mounts", "x")),)
    archives = {"~/.aws": Archive(True, "d", 1, 1, bytes(size))}
    with pytest.raises(UserError, match='"keys" holds credentials, and a Secret can hold'):
        make_plan(replace(make_task(), files=files), replace(FACTS, archives=archives))


def test_file_transfer_config_maps_are_projected_beside_scripts() -> None:
    plan = make(a=MAX_BYTES, b=MAX_BYTES)
    rendered = manifests.render(plan)
    runtime, *config_maps = (one.object for one in rendered.shared)
    assert [one["metadata"]["name"] for one in config_maps] == [
        one.name for one in plan.file_transfer.config_maps
    ]
    assert all("task-id" not in one["metadata"]["labels"] for one in (runtime, *config_maps))

    (volume,) = [
        one
        for one in rendered.workload[0].object["spec"]["template"]["spec"]["volumes"]
        if one["name"] == "scripts"
    ]
    sources = [one["configMap"]["name"] for one in volume["projected"]["sources"]]
    assert sources == [
        runtime["metadata"]["name"],
        plan.name,
        *(one.name for one in plan.file_transfer.config_maps),
    ]
