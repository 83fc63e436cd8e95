"""The volumes of pods: folders of this machine, and files from ConfigMaps, Secrets and fields."""

import shutil
from pathlib import Path

from kubectl_sky_practice import environment
from kubectl_sky_practice.api import Api
from kubectl_sky_practice.environment import ConfigError
from kubectl_sky_practice.problems import Json
from kubectl_sky_practice.runtime import Mount

Files = dict[str, tuple[bytes, int]]  # content and mode by path
_MISSING_KEY = {
    "configMap": "configmap references non-existent config key",
    "secret": "references non-existent secret key",
}


class Volumes:
    def __init__(self, api: Api, pod: Json, folder: Path) -> None:
        self._api = api
        self._state = api.state
        self._pod = pod
        self._folder = folder
        self._namespace = pod["metadata"]["namespace"]
        self._sources: dict[str, tuple[Path, bool]] = {}

    def set_up(self) -> None:
        """Create all volumes. Raises ConfigError with the kubelet's message."""
        for volume in self._pod["spec"].get("volumes") or ():
            name = volume["name"]
            try:
                self._sources[name] = self._source(volume)
            except (ConfigError, OSError) as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                raise ConfigError(text) from None

    def mounts(self, container: Json, values: dict[str, str]) -> list[Mount]:
        """Return the mounts of a container. Raises ConfigError."""
        mounts = []
        for mount in container.get("volumeMounts") or ():
            source, read_only = self._sources[mount["name"]]
            sub_path = environment.expand(mount.get("subPathExpr", ""), values)
            path = source / (sub_path or mount.get("subPath", ""))
            if not path.resolve().is_relative_to(source.resolve()):
                raise ConfigError(f'failed to prepare subPath for volumeMount "{mount["name"]}"')
            if not path.exists():
                path.mkdir(parents=True)
            read_only = read_only or bool(mount.get("readOnly"))
            mounts.append(Mount(mount["mountPath"], str(path.resolve()), read_only))
        return mounts

    def _source(self, volume: Json) -> tuple[Path, bool]:
        folder = self._folder / volume["name"]
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]
            return self._claim_folder(claim["claimName"]), bool(claim.get("readOnly"))
        if "hostPath" in volume:
            return _host_path(volume["hostPath"]), False

        kind = next((kind for kind in volume if kind != "name"), "emptyDir")
        if kind == "emptyDir":
            if not folder.is_dir():
                folder.mkdir(parents=True)
                folder.chmod(0o777)
            return folder, False

        sources = volume[kind].get("sources") if kind == "projected" else [{kind: volume[kind]}]
        mode = volume[kind].get("defaultMode", 0o644)
        files = Files()
        for source in sources or ():
            for source_kind, body in source.items():
                files |= self._files(source_kind, body, mode)
        _write(folder, files)
        return folder, True

    def _claim_folder(self, name: str) -> Path:
        claim = self._state.get("persistentvolumeclaims", self._namespace, name)
        if claim is None:
            raise ConfigError(f'persistentvolumeclaim "{name}" not found')
        if "volumeName" not in claim["spec"]:
            raise ConfigError(f'persistentvolumeclaim "{name}" is not bound')
        return self._api.claim_folder(claim["spec"]["volumeName"])

    def _files(self, kind: str, body: Json, mode: int) -> Files:
        items = body.get("items") or ()
        modes = {item["path"]: item.get("mode", mode) for item in items}
        if kind == "downwardAPI":
            return {item["path"]: (self._field(item), modes[item["path"]]) for item in items}
        if kind == "serviceAccountToken":
            return {}  # pods have no identity in this cluster
        if kind not in _MISSING_KEY:
            raise ConfigError(f"{kind} volumes are not supported by the practice cluster")

        name = body.get("secretName") or body["name"]
        optional = body.get("optional")
        object_kind = "Secret" if kind == "secret" else "ConfigMap"
        data = environment.contents(self._state, object_kind, (self._namespace, name))
        if data is None and not optional:
            raise ConfigError(f'{kind.lower()} "{name}" not found')
        data = data or {}

        if not items:
            return {path: (content, mode) for path, content in data.items()}
        for item in items:
            if item["key"] not in data and not optional:
                raise ConfigError(f"{_MISSING_KEY[kind]}: {item['key']}")
        existing = [item for item in items if item["key"] in data]
        return {item["path"]: (data[item["key"]], modes[item["path"]]) for item in existing}

    def _field(self, item: Json) -> bytes:
        if "fieldRef" not in item:
            raise ConfigError("resourceFieldRef is supported by the practice cluster only in env")
        return environment.field_value(self._pod, item["fieldRef"]["fieldPath"]).encode()


def _host_path(volume: Json) -> Path:
    path = Path(volume["path"])
    kind = volume.get("type") or "DirectoryOrCreate"
    if kind == "FileOrCreate":
        path.touch()
    elif kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise ConfigError(f"hostPath type check failed: {path} is not a {kind}")
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
