"""Kubeconfigs of all kinds, and a pod's own account, as the Kubernetes client reads them.

Reading the files and running credential plugins is the Kubernetes client's work; this module puts
kubectl's rules of precedence around it and turns every way to fail into one line.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import incluster_config
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from kubectl_sky.cluster.connection import POOL, Connection, Contexts, Target
from kubectl_sky.errors import ClusterError
from kubectl_sky.values import dataclass

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IN_CLUSTER = "in-cluster"


@dataclass(frozen=True)
class _Credentials:
    """In the client's form; refreshing them sets its host back to the kubeconfig's."""

    configuration: Configuration

    @property
    def verified(self) -> bool:
        return bool(self.configuration.verify_ssl)

    def bearer(self) -> str:
        """Run the credential plugin when its token is ending."""
        with _plugin_failures() as failures:
            bearer = self.configuration.auth_settings().get("BearerToken")
        if failures:
            raise _plugin_error("of the kubeconfig", failures)
        return str(bearer["value"]).strip() if bearer and bearer["value"] else ""

    def pool(self) -> urllib3.PoolManager:
        return RESTClientObject(self.configuration).pool_manager


def contexts(paths: str) -> Contexts:
    """Return the contexts of files, in the notation of KUBECONFIG. Raises ClusterError."""
    merger = _read(paths)
    names = tuple(str(item.get("name")) for item in _entries(merger, "contexts"))
    return Contexts(names, _current_context(merger))


def from_files(connection: Connection, paths: str) -> Target:
    """Return the target that files name. Raises ClusterError."""
    merger = _read(paths)
    context = connection.context or _current_context(merger)
    if not context and connection.server:
        return from_flags(connection)
    entry = _context(merger, context, paths)
    user = _named(merger, "users", entry.get("user")).get("user") or {}
    active = context
    if connection.cluster:
        active = _with_cluster(merger, entry, connection.cluster, paths)
    configuration = Configuration(connection_pool_maxsize=POOL)
    with _plain(paths, user):
        loader = KubeConfigLoader(
            merger.config,
            active,
            config_base_path=None,  # relative to the file that says it
            config_persister=merger.save_changes,
        )
        loader.load_and_set(configuration)
    server = _override(configuration, connection)
    return Target(
        _Credentials(configuration),
        server,
        context,
        connection.namespace or str(entry.get("namespace") or "default"),
        renewable=not connection.token and bool({"exec", "tokenFile"} & set(user)),
    )


def _read(paths: str) -> KubeConfigMerger:
    """Read and merge the files; any text that is not a kubeconfig is one clear line."""
    try:
        merger = KubeConfigMerger(paths)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise _malformed(paths, f"not YAML{place}") from None
    except (ConfigException, AttributeError, KeyError, TypeError, UnicodeDecodeError):
        raise _malformed(paths, "not a kubeconfig") from None
    except OSError as error:
        raise _malformed(paths, error.strerror or "cannot be read") from None
    if not isinstance(merger.config, ConfigNode):
        raise _malformed(paths, "not a kubeconfig")
    return merger


def _malformed(paths: str, why: str) -> ClusterError:
    return ClusterError(f"cannot use the kubeconfig {paths}: {why}", "see `kubectl config view`")


def _current_context(merger: KubeConfigMerger) -> str:
    """The first file that names one decides, as kubectl has it."""
    named = (content.get("current-context") for content in merger.config_files.values())
    return next((str(name) for name in named if name), "")


def _entries(merger: KubeConfigMerger, section: str) -> list[dict[str, Any]]:
    return [node.value for node in merger.config.value[section]]


def _named(merger: KubeConfigMerger, section: str, name: object) -> dict[str, Any]:
    return next((item for item in _entries(merger, section) if item.get("name") == name), {})


def _context(merger: KubeConfigMerger, name: str, paths: str) -> dict[str, Any]:
    names = ", ".join(str(item.get("name")) for item in _entries(merger, "contexts")) or "none"
    if not name:
        raise ClusterError(
            f"the kubeconfig {paths} has no current context",
            f"choose one with --context; it has: {names}",
        )
    found = _named(merger, "contexts", name).get("context")
    if not isinstance(found, dict):
        raise ClusterError(f"no context {name!r} in the kubeconfig {paths}", f"it has: {names}")
    return found


def _with_cluster(merger: KubeConfigMerger, entry: dict[str, Any], cluster: str, paths: str) -> str:
    """Add a context with another cluster, and return its name."""
    if not _named(merger, "clusters", cluster):
        names = ", ".join(str(item.get("name")) for item in _entries(merger, "clusters")) or "none"
        raise ClusterError(f"no cluster {cluster!r} in the kubeconfig {paths}", f"it has: {names}")
    name = "\0with-cluster"  # no file can hold this name
    added = {"name": name, "context": {**entry, "cluster": cluster}}
    merger.config.value["contexts"].append(ConfigNode(name, added))
    return name


@contextmanager
def _plain(paths: str, user: dict[str, Any]) -> Iterator[None]:
    """Turn what can go wrong with credentials into one line.

    The client only logs that a credential plugin failed, and would go on without credentials.
    """
    with _plugin_failures() as failures:
        try:
            yield
        except ConfigException as error:
            text = str(error).strip().rstrip(".")
            if text.startswith("File does not exist: "):
                missing = text.removeprefix("File does not exist: ")
                why = f"the certificate or key file {missing} does not exist"
            else:
                why = text.removeprefix("Invalid kube-config file. ")
            raise _malformed(paths, why) from None
        except OSError as error:
            raise _malformed(paths, f"{error.filename}: {error.strerror}") from None
        except (ValueError, TypeError, AttributeError, KeyError):
            raise _malformed(paths, "its certificates or credentials are damaged") from None
    if failures and "exec" in user:
        raise _plugin_error(str(user["exec"].get("command")), failures)


@contextmanager
def _plugin_failures() -> Iterator[list[str]]:
    """Collect what the client logs about credential plugins instead of printing it."""
    failures: list[str] = []
    handler = _Collector(failures)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield failures
    finally:
        root.removeHandler(handler)


class _Collector(logging.Handler):
    def __init__(self, texts: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _plugin_error(command: str, failures: list[str]) -> ClusterError:
    """The error of a credential plugin that gave no credentials."""
    why = " ".join(failures[0].removeprefix("exec: ").split())
    return ClusterError(f"the credential plugin {command} failed: {why}", "log in and try again")


def from_pod(connection: Connection) -> Target:
    """Return the target of a pod's own account. Raises ClusterError."""
    configuration = Configuration(connection_pool_maxsize=POOL)
    try:
        incluster_config.load_incluster_config(configuration)
    except ConfigException as error:
        raise ClusterError(
            f"no kubeconfig, and this pod has no service account to use: {error}",
            "name one with --kubeconfig",
        ) from None
    server = _override(configuration, connection)
    own = _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.exists() else "default"
    return Target(
        _Credentials(configuration),
        server,
        _IN_CLUSTER,
        connection.namespace or own,
        renewable=True,
    )


def from_flags(connection: Connection) -> Target:
    """Return the target that the flags name alone."""
    configuration = Configuration(connection_pool_maxsize=POOL)
    server = _override(configuration, connection)
    return Target(
        _Credentials(configuration), server, "", connection.namespace or "default", renewable=False
    )


def _override(configuration: Configuration, connection: Connection) -> str:
    """Let the flags win over what the files say, and return the server's URL."""
    configuration.keep_alive = True  # or firewalls forget a quiet log stream
    if connection.server:
        configuration.host = connection.server.rstrip("/")
    # The client would read the environment again for each request, which takes as long as all else.
    configuration.proxy = configuration.proxy
    if connection.token:
        configuration.api_key = {"BearerToken": f"Bearer {connection.token}"}
        configuration.refresh_api_key_hook = None
    if connection.insecure is not None:
        configuration.verify_ssl = not connection.insecure
    return str(configuration.host).rstrip("/")
