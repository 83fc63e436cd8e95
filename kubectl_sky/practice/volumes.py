"""The volumes of pods: folders of this machine, and what is written into them."""

import shutil
from pathlib import Path

from kubectl_sky.practice import environment
from kubectl_sky.practice.environment import ConfigError
from kubectl_sky.practice.problems import Json
from kubectl_sky.practice.sandbox import Mount
from kubectl_sky.practice.state import State

_MISSING = {
    "configMap": "configmap references non-existent config",
    "secret": "references non-existent secret",
}
Files = dict[str, tuple[bytes, int]]  # content and mode by path
_CHECKS = {
    "Directory": (Path.is_dir, "a directory"),
    "File": (Path.is_file, "a file"),
    "Socket": (Path.is_socket, "a socket file"),
    "CharDevice": (Path.is_char_device, "a character device"),
    "BlockDevice": (Path.is_block_device, "a block device"),
}


class Volumes:
    """The volumes of one pod, below a folder of its own."""

    def __init__(self, state: State, pod: Json, folder: Path) -> None:
        self._state = state
        self._pod = pod
        self._folder = folder
        self._sources: dict[str, tuple[Path, bool]] = {}

    def prepare(self) -> None:
        """Make all of them. Raises ConfigError with the kubelet's words."""
        for volume in self._pod["spec"].get("volumes") or ():
            name = volume["name"]
            try:
                self._sources[name] = self._source(volume)
            except (ConfigError, OSError) as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                raise ConfigError(text) from None

    def mounts(self, container: Json, values: dict[str, str]) -> list[Mount]:
        """Return what a container has of them. Raises ConfigError."""
        found = []
        for mount in container.get("volumeMounts") or ():
            source, frozen = self._sources[mount["name"]]
            within = environment.expand(mount.get("subPathExpr", ""), values)
            within = within or mount.get("subPath", "")
            path = source / within
            if not path.resolve().is_relative_to(source.resolve()):
                raise ConfigError(f'failed to prepare subPath for volumeMount "{mount["name"]}"')
            if within and not path.exists():
                path.mkdir(parents=True)
            read_only = frozen or bool(mount.get("readOnly"))
            found.append(Mount(mount["mountPath"], str(path.resolve()), read_only))
        return found

    def _source(self, volume: Json) -> tuple[Path, bool]:
        folder = self._folder / volume["name"]
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]
            return self._claimed(claim["claimName"]), bool(claim.get("readOnly"))
        if "hostPath" in volume:
            return _host(volume["hostPath"]), False
        if "emptyDir" in volume:
            if not folder.is_dir():
                folder.mkdir(parents=True)
                folder.chmod(0o777)
            return folder, False
        kind = next((kind for kind in volume if kind != "name"), "emptyDir")
        sources = volume[kind].get("sources") if kind == "projected" else [{kind: volume[kind]}]
        files: Files = {}
        mode = volume[kind].get("defaultMode", 0o644)
        for source in sources or ():
            for one, body in source.items():
                files |= self._files(one, body, mode)
        _write(folder, files)
        return folder, True

    def _claimed(self, name: str) -> Path:
        namespace = self._pod["metadata"]["namespace"]
        claim = self._state.get("persistentvolumeclaims", namespace, name)
        if claim is None:
            raise ConfigError(f'persistentvolumeclaim "{name}" not found')
        bound = self._state.get("persistentvolumes", "", claim["spec"].get("volumeName", ""))
        if bound is None:
            raise ConfigError(f'persistentvolumeclaim "{name}" is not bound')
        path = Path(bound["spec"].get("hostPath", bound["spec"].get("local", {}))["path"])
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _files(self, kind: str, body: Json, mode: int) -> Files:
        if kind == "downwardAPI":
            return {
                item["path"]: (self._downward(item), item.get("mode", mode))
                for item in body.get("items") or ()
            }
        if kind == "serviceAccountToken":
            return {}  # nothing in a pod is somebody to this cluster
        if kind not in ("configMap", "secret"):
            raise ConfigError(f"{kind} volumes are not supported by the practice cluster")
        name = body.get("secretName") or body["name"]
        key = (self._pod["metadata"]["namespace"], name)
        data = environment.contents(self._state, "Secret" if kind == "secret" else "ConfigMap", key)
        if data is None and not body.get("optional"):
            raise ConfigError(f'{kind.lower()} "{name}" not found')
        data = data or {}
        if not body.get("items"):
            return {path: (content, mode) for path, content in data.items()}
        for item in body["items"]:
            if item["key"] not in data and not body.get("optional"):
                raise ConfigError(f"{_MISSING[kind]} key: {item['key']}")
        return {
            item["path"]: (data[item["key"]], item.get("mode", mode))
            for item in body["items"]
            if item["key"] in data
        }

    def _downward(self, item: Json) -> bytes:
        if "fieldRef" in item:
            return environment.field_of(self._pod, item["fieldRef"]["fieldPath"]).encode()
        node = self._state.get("nodes", "", self._pod["spec"]["nodeName"]) or {}
        first = self._pod["spec"]["containers"][0]
        return environment.amount_of(self._pod, first, item["resourceFieldRef"], node).encode()


def _host(volume: Json) -> Path:
    path, kind = Path(volume["path"]), volume.get("type") or ""
    if kind in _CHECKS and not _CHECKS[kind][0](path):
        raise ConfigError(f"hostPath type check failed: {path} is not {_CHECKS[kind][1]}")
    if kind == "FileOrCreate":
        path.touch()
    elif not path.exists():
        path.mkdir(parents=True)
    return path


def _write(folder: Path, files: Files) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (content, mode) in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"invalid path: {name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
