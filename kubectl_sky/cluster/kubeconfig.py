"""Find out which server to talk to and as whom: kubeconfig files, flags, or a pod's own account.

Reading the files and running credential plugins is the Kubernetes client's work; this module puts
kubectl's rules of precedence around it and turns every way to fail into one line.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from kubectl_sky.errors import ClusterError
from kubectl_sky.values import dataclass

_HOME = "~/.kube/config"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IN_CLUSTER = "in-cluster"


@dataclass(frozen=True)
class Connection:
    """What the user's flags say about the connection; None means that the kubeconfig decides.

    `request_timeout` is in seconds and bounds each request that is not a stream.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    server: str | None = None
    token: str | None = None
    namespace: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: float | None = None
    insecure: bool | None = None


@dataclass(frozen=True)
class Target:
    """A server, its credentials in the client's form, and the defaults that go with them.

    The configuration is to be used for credentials only: refreshing them sets its host back to the
    kubeconfig's. `renewable` says that reading the target again may give fresh credentials.
    """

    configuration: Configuration
    server: str
    context: str
    namespace: str
    renewable: bool


def locate(connection: Connection) -> Target:
    """Return the target of a connection. Raises ClusterError when it cannot be told."""
    paths = _paths(connection)
    if paths:
        return _from_files(connection, paths)
    if incluster_config.SERVICE_HOST_ENV_NAME in os.environ and not connection.context:
        return _from_pod(connection)
    if connection.server:
        return _from_flags(connection)
    raise ClusterError(_nothing_found(connection), "name one with --kubeconfig")


@dataclass(frozen=True)
class Contexts:
    """The names of the kubeconfig's contexts, and which is the current one ("" for none)."""

    names: tuple[str, ...] = ()
    current: str = ""


def contexts(connection: Connection) -> Contexts:
    """Return the contexts that there are; none without a kubeconfig. Raises ClusterError."""
    paths = _paths(connection)
    if not paths:
        return Contexts()
    merger = _read(paths)
    names = tuple(str(item.get("name")) for item in _entries(merger, "contexts"))
    return Contexts(names, _current_context(merger))


def _paths(connection: Connection) -> str:
    """The kubeconfig files that exist, in the notation of KUBECONFIG."""
    named = connection.kubeconfig or os.environ.get("KUBECONFIG") or _HOME
    separate = [named] if connection.kubeconfig else named.split(os.pathsep)
    files = [str(Path(path).expanduser()) for path in separate if path]
    return os.pathsep.join(path for path in files if Path(path).exists())


def _nothing_found(connection: Connection) -> str:
    if connection.kubeconfig:
        return f"no kubeconfig: {connection.kubeconfig} does not exist"
    if os.environ.get("KUBECONFIG"):
        return f"no kubeconfig: KUBECONFIG names {os.environ['KUBECONFIG']}, which does not exist"
    return f"no kubeconfig: none at {_HOME} and KUBECONFIG is not set"


def _from_files(connection: Connection, paths: str) -> Target:
    merger = _read(paths)
    context = connection.context or _current_context(merger)
    if not context and connection.server:
        return _from_flags(connection)
    entry = _context(merger, context, paths)
    user = _named(merger, "users", entry.get("user")).get("user") or {}
    active = context
    if connection.cluster:
        active = _with_cluster(merger, entry, connection.cluster, paths)
    configuration = Configuration(connection_pool_maxsize=32)
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
        configuration,
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
    with plugin_failures() as failures:
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
        raise plugin_error(str(user["exec"].get("command")), failures)


@contextmanager
def plugin_failures() -> Iterator[list[str]]:
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


def plugin_error(command: str, failures: list[str]) -> ClusterError:
    """The error of a credential plugin that gave no credentials."""
    why = " ".join(failures[0].removeprefix("exec: ").split())
    return ClusterError(f"the credential plugin {command} failed: {why}", "log in and try again")


def _from_pod(connection: Connection) -> Target:
    configuration = Configuration(connection_pool_maxsize=32)
    try:
        incluster_config.load_incluster_config(configuration)
    except ConfigException as error:
        raise ClusterError(
            f"no kubeconfig, and this pod has no service account to use: {error}",
            "name one with --kubeconfig",
        ) from None
    server = _override(configuration, connection)
    own = _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.exists() else "default"
    return Target(configuration, server, _IN_CLUSTER, connection.namespace or own, renewable=True)


def _from_flags(connection: Connection) -> Target:
    configuration = Configuration(connection_pool_maxsize=32)
    server = _override(configuration, connection)
    return Target(configuration, server, "", connection.namespace or "default", renewable=False)


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
