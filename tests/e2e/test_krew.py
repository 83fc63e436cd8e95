"""The released plugin: built, installed by the real krew, and run by kubectl."""

import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
from ctypes.util import find_library
from pathlib import Path

import pytest
import yaml

from kubectl_sky import __version__
from tests.cluster import cache, packages, practice, programs
from tests.cluster.target import Cluster

ROOT = Path(__file__).parent.parent.parent
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
DEVELOPMENT = ("hypothesis", "mypy", "pip", "pytest", "setuptools", "tests")


class Shell:
    """A shell with krew, but without this checkout and its Python."""

    def __init__(self, home: Path, cluster: Cluster) -> None:
        folder = home / "programs"
        folder.mkdir()
        (folder / "kubectl").symlink_to(cluster.kubectl or practice.kubectl())
        (folder / "kubectl-krew").symlink_to(programs.path("krew"))
        self._home = home
        self._environment = {
            "HOME": str(home),
            "KREW_ROOT": str(home / "krew"),
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{home / 'krew' / 'bin'}:{folder}:{SYSTEM}",
        }

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl, which must succeed; return its stdout."""
        done = subprocess.run(
            ["kubectl", *arguments],
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            executable=str(self._home / "programs" / "kubectl"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


pytestmark = [
    pytest.mark.tools,
    pytest.mark.builds("krew", "krew-validate"),
    pytest.mark.timeout(900),  # the first one makes the archive
]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder with the archive and its manifest, as `make dist` makes it, for all workers."""
    packages.require("objdump", "strip")
    library = f"python3.{sys.version_info.minor}"
    if sys.base_prefix == "/usr" and not find_library(library):  # a separate package on Debian
        packages.require(f"lib{library}")
    assert sysconfig.get_config_var("Py_ENABLE_SHARED") or sys.base_prefix == "/usr"
    root = tmp_path_factory.getbasetemp()
    folder = (root if worker_id == "master" else root.parent) / "dist"
    with cache.lock("dist"):
        if not (folder / "sky.yaml").exists():
            command = ["make", "--silent", "dist", f"DIST={folder}", f"PYTHON={sys.executable}"]
            environment = {**os.environ, "HOME": str(cache.HOME)}  # with pip's cache
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return folder


@pytest.fixture(scope="module")
def shell(dist: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell with the plugin installed by krew."""
    shell = Shell(tmp_path_factory.mktemp("user"), cluster)
    install(shell, dist)
    return shell


def install(shell: Shell, dist: Path) -> None:
    files = f"--manifest={dist / 'sky.yaml'}", f"--archive={archive(dist)}"
    shell.kubectl("krew", "install", *files)


def archive(dist: Path) -> Path:
    (path,) = dist.glob("kubectl-sky-*.tar.gz")
    return path


@pytest.mark.cluster
def test_dist_archive_contains_runtime_files_only(dist: Path) -> None:
    with tarfile.open(archive(dist)) as tar:
        entries = tar.getmembers()
    names = {entry.name for entry in entries}
    assert all(entry.isfile() for entry in entries), "krew refuses links"
    assert {"LICENSE", "kubectl-sky", "kubectl_complete-sky"} <= names
    scripts = [entry for entry in entries if entry.name.startswith("kubectl")]
    assert all(entry.mode & 0o111 for entry in scripts)
    command = ["git", "ls-files", "templates", "runtime", "schemas"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert {f"lib/kubectl_sky/{asset}" for asset in listed.stdout.split()} <= names
    inside = {name.removeprefix("lib/").split("/")[0] for name in names}
    assert not inside & set(DEVELOPMENT)
    assert archive(dist).stat().st_size < 28_000_000


def write_manifest(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Write the manifest of archives with these names."""
    for name in names:
        (folder / name).write_bytes(name.encode())
    command = [sys.executable, str(ROOT / ".ci" / "dist.py"), "--manifest", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def archives() -> list[str]:
    """Return the names of the archives of all platforms."""
    platforms = yaml.safe_load((ROOT / "plugin.yaml").read_text())["spec"]["platforms"]
    return [entry["uri"].rpartition("/")[2] for entry in platforms]


def test_dist_manifest_of_all_platforms_has_their_checksums(tmp_path: Path) -> None:
    assert write_manifest(tmp_path, *archives()).returncode == 0
    manifest = yaml.safe_load((tmp_path / "sky.yaml").read_text())
    sums = [hashlib.sha256(name.encode()).hexdigest() for name in archives()]
    assert [entry["sha256"] for entry in manifest["spec"]["platforms"]] == sums


def test_dist_manifest_without_one_archive_fails(tmp_path: Path) -> None:
    *most, missing = archives()
    done = write_manifest(tmp_path, *most)
    assert done.returncode == 1
    assert done.stderr == f"error: archives not found in {tmp_path}: {missing}\n"
    assert not (tmp_path / "sky.yaml").exists()


@pytest.mark.cluster
def test_dist_manifest_passes_krew_validation(dist: Path, tmp_path: Path) -> None:
    validate = programs.path("krew-validate")
    assert write_manifest(tmp_path, *archives()).returncode == 0
    for manifest in (dist / "sky.yaml", tmp_path / "sky.yaml"):
        command = [str(validate), "-manifest", str(manifest), "-skip-install"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_plugin_manifest_matches_project_version() -> None:
    manifest = yaml.safe_load((ROOT / "plugin.yaml").read_text())
    assert manifest["spec"]["version"] == f"v{__version__}"
    for entry in manifest["spec"]["platforms"]:
        labels = entry["selector"]["matchLabels"]
        name = f"kubectl-sky-{__version__}-{labels['os']}-{labels['arch']}.tar.gz"
        assert entry["uri"].endswith(f"/v{__version__}/{name}")


def test_installed_plugin_prints_version_and_help(shell: Shell) -> None:
    assert shell.kubectl("sky", "version") == f"{__version__}\n"
    assert shell.kubectl("sky", "--help").startswith("Usage: kubectl sky ")


def test_installed_plugin_completes_after_completion_install(shell: Shell) -> None:
    assert "/krew/bin/kubectl_complete-sky created" in shell.kubectl("sky", "completion", "install")
    assert shell.kubectl("__complete", "sky", "versi").startswith("version\tPrint the version")
    assert shell.kubectl("sky", "completion", "uninstall").endswith(
        "kubectl_complete-sky deleted\n"
    )


def test_installed_plugin_runs_task(shell: Shell, namespace: str) -> None:
    example = str(ROOT / "examples" / "01-hello.yaml")
    here = ("-n", namespace)
    shell.kubectl("sky", "validate", example)
    assert "kind: Job" in shell.kubectl("sky", "render", example)
    assert "Hello from Python 3." in shell.kubectl("sky", "submit", example, *here)
    assert "Hello from Python 3." in shell.kubectl("sky", "logs", "hello", *here)
    assert "completed" in shell.kubectl("sky", "list", *here)
    shell.kubectl("sky", "stop", "hello", *here)
    assert "hello" not in shell.kubectl("sky", "list", *here)


def test_installed_plugin_local_up_starts_practice_cluster(shell: Shell) -> None:
    """The bundled Python runs the server and starts the pods."""
    example = str(ROOT / "examples" / "01-hello.yaml")
    try:
        kubeconfig = shell.kubectl("sky", "local", "up").strip().partition("=")[2]
        done = shell.kubectl("sky", "submit", example, "--kubeconfig", kubeconfig)
        assert "Hello from Python 3." in done
    finally:
        shell.kubectl("sky", "local", "down", "--purge")


def test_credential_plugin_gets_no_bundled_libraries(shell: Shell, tmp_path: Path) -> None:
    """A credential plugin must not load the bundled libraries."""
    seen = tmp_path / "seen"
    plugin = tmp_path / "credentials"
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "none"}}'
    )
    plugin.write_text(f"#!/bin/sh\nenv > {seen}\necho '{credential}'\n")
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    execution = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": execution}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig = tmp_path / "kubeconfig"

    kubeconfig.write_text(yaml.safe_dump(config))
    with pytest.raises(AssertionError):  # the server does not exist
        shell.kubectl("sky", "list", "--kubeconfig", str(kubeconfig))
    assert "LD_LIBRARY_PATH" not in seen.read_text()
