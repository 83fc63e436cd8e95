"""Resolve server and credentials: kubeconfig, flags or service account.

The Kubernetes client reads the files, runs credential plugins and sets up TLS and proxies. This
module adds kubectl's flags and precedence rules, and reports each error in one line.
"""

import os
import re
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster.client import Client
from kubectl_sky.cluster.connection import KUBERNETES_PATH, Connection, Contexts, Target
from kubectl_sky.errors import ClusterError, UserError, did_you_mean

Entry = dict[str, Any]

_DEFAULT_PATH = "~/.kube/config"
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_CA = "certificate-authority"
_INSECURE = "insecure-skip-tls-verify"
_CERTIFICATES = ("client-certificate", "client-key")
_CERTIFICATE_KEYS = frozenset({*_CERTIFICATES, *(f"{name}-data" for name in _CERTIFICATES)})
_HEADER = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)?")
_MALFORMED = (ValueError, TypeError, AttributeError, LookupError)  # raised by the Kubernetes client


def resolve(connection: Connection) -> Target:
    """Return the server and credentials for a connection. Raises UserError, ClusterError."""
    for address in filter(None, (connection.server, connection.server_url)):
        _check_address(address)
    if connection.server_url:
        connection = _through_server(connection)
    paths = _paths(connection)
    if paths:
        return _from_files(connection, os.pathsep.join(paths))
    if _IN_CLUSTER in os.environ and not (connection.context or connection.server_url):
        return _from_service_account(connection)
    if connection.server:
        return _from_flags(connection)
    raise _no_kubeconfig(connection)


def _check_address(url: str) -> None:
    """Raise UserError for an address of a flag that no request can be sent to."""
    if "@" in url:  # the message must not quote a password
        raise UserError("the server's address has credentials in it", "use --token")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port, or the brackets of an IPv6 address
        valid = False
    if not valid or re.search(r"\s", url):
        raise UserError(f'"{url}" is not a server address', "use https://HOST:PORT")


def _through_server(connection: Connection) -> Connection:
    """Return the connection to the API server behind a kubectl-sky server. Raises UserError."""
    url = str(connection.server_url).rstrip("/")
    if connection.server:
        raise UserError("--server and --server-url exclude each other", "leave one out")
    if not _is_encrypted(url) and not _on_loopback(url):
        raise UserError(
            f"{url} is not a server address", "use https://HOST, or http:// on this machine"
        )
    return replace(connection, server=f"{url}{KUBERNETES_PATH}")


def contexts(connection: Connection) -> Contexts:
    """Return the contexts of the kubeconfig, empty without one. Raises ClusterError."""
    paths = _paths(connection)
    if not paths:
        return Contexts()
    merger = _read(os.pathsep.join(paths))
    return Contexts(_names(merger, "contexts"), _current_context(merger))


def _paths(connection: Connection) -> list[str]:
    value = connection.kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT_PATH
    names = [value] if connection.kubeconfig else value.split(os.pathsep)
    paths = [Path(name).expanduser() for name in names if name]
    return [str(path) for path in paths if path.exists()]


def _no_kubeconfig(connection: Connection) -> ClusterError:
    files = os.environ.get("KUBECONFIG")
    hint = "name one with --kubeconfig; `kubectl sky local up` starts a cluster on this machine"
    if connection.kubeconfig:
        what = f"{connection.kubeconfig} does not exist"
    elif files:
        what = f"KUBECONFIG names {files}, which does not exist"
        hint = "run `unset KUBECONFIG`; `kubectl sky local up` starts a cluster on this machine"
    else:
        what = f"none at {_DEFAULT_PATH} and KUBECONFIG is not set"
    return ClusterError(f"no kubeconfig: {what}", hint)


class _Context(Struct, frozen=True):
    """A context with its entries and flags applied, and the files of the entries."""

    name: str
    namespace: str
    cluster: Entry
    user: Entry
    cluster_file: str
    user_file: str
    user_name: str


def _from_files(connection: Connection, paths: str) -> Target:
    merger = _read(paths)
    name = connection.context or _current_context(merger)
    if not name and connection.server:
        return _from_flags(connection)
    try:
        context = _context(connection, merger, name, paths)
        user = _credentials(connection, context)
        configuration = _load(merger, context, user, paths)
    except ClusterError:
        raise
    except OSError as error:
        raise _reject(paths, f"{error.filename}: {error.strerror}") from None
    except _MALFORMED:
        raise _reject(paths, "its certificates or credentials are damaged") from None
    renewable = bool({"exec", "tokenFile", "auth-provider"} & set(context.user))
    renewable = renewable and not connection.anonymous
    target = _target(
        configuration,
        context.name,
        context.namespace,
        renewable=renewable and not connection.token,
    )
    return replace(target, user=context.user_name)


def _read(paths: str) -> KubeConfigMerger:
    """Read and merge kubeconfig files. Raises ClusterError for invalid files."""
    try:
        merger = KubeConfigMerger(paths)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise _reject(paths, f"not YAML{line}") from None
    except (ConfigException, RecursionError, *_MALFORMED):
        raise _reject(paths, "not a kubeconfig") from None
    except OSError as error:
        raise _reject(paths, error.strerror or "cannot be read") from None
    if not isinstance(merger.config, ConfigNode):
        raise _reject(paths, "not a kubeconfig")
    return merger


def _reject(paths: str, why: str) -> ClusterError:
    return ClusterError(f"cannot use the kubeconfig {paths}: {why}", "see `kubectl config view`")


def _current_context(merger: KubeConfigMerger) -> str:
    """Return the current context of the first file that sets one, as kubectl does."""
    context_names = (content.get("current-context") for content in merger.config_files.values())
    return next((str(name) for name in context_names if name), "")


def _names(merger: KubeConfigMerger, section: str) -> tuple[str, ...]:
    return tuple(str(node.value.get("name")) for node in merger.config.value[section])


def _find(merger: KubeConfigMerger, kind: str, name: object, paths: str) -> tuple[Entry, str]:
    """Return an entry by kind and name, and the file it is in. Raises ClusterError."""
    for node in merger.config.value[f"{kind}s"]:
        entry = node.value.get(kind)
        if node.value.get("name") == name and isinstance(entry, dict):
            return {
                key: value for key, value in entry.items() if value not in ("", None)
            }, node.path
    names = _names(merger, f"{kind}s")
    similar = did_you_mean(str(name), names)
    hint = f"{similar}it has: {', '.join(names) or 'none'}" + (
        "; the name of a task is --name" if kind == "cluster" else ""
    )
    raise ClusterError(f'{kind} "{name}" not found in the kubeconfig {paths}', hint)


def _context(connection: Connection, merger: KubeConfigMerger, name: str, paths: str) -> _Context:
    if not name:
        names = ", ".join(_names(merger, "contexts")) or "none"
        raise ClusterError(
            f"the kubeconfig {paths} has no current context",
            f"choose one with --context; it has: {names}",
        )
    context, _ = _find(merger, "context", name, paths)
    cluster_name = connection.cluster or context.get("cluster")
    cluster, cluster_file = _find(merger, "cluster", cluster_name, paths)
    user: Entry = {}
    user_file = cluster_file
    if "user" in context:
        user, user_file = _find(merger, "user", context["user"], paths)
    return _Context(
        name,
        connection.namespace or str(context.get("namespace") or "default"),
        _with_flags(connection, cluster, paths),
        user,
        cluster_file,
        user_file,
        str(context.get("user") or ""),
    )


def _with_flags(connection: Connection, cluster: Entry, paths: str) -> Entry:
    """Return a cluster entry with the flags applied, as kubectl merges them."""
    if connection.server_url:  # another server, with a certificate of its own
        cluster = {"server": connection.server}
    elif connection.server:
        cluster = {**cluster, "server": connection.server}
    if connection.certificate_authority:
        cluster.pop(f"{_CA}-data", None)
        cluster[_CA] = str(Path(connection.certificate_authority).absolute())
    if connection.insecure is not None:
        cluster = {**cluster, _INSECURE: connection.insecure}
    authority = {_CA, f"{_CA}-data"} & set(cluster)
    if connection.insecure:
        cluster = {key: value for key, value in cluster.items() if key not in authority}
        authority = set()
    if not cluster.get("server"):
        raise _reject(paths, "its cluster has no server")
    if cluster.get(_INSECURE) and authority:
        raise _reject(paths, f"{_INSECURE} together with {_CA} is not allowed")
    return cluster


def _credentials(connection: Connection, context: _Context) -> Entry:
    """Return the user entry with credentials.

    As in kubectl, --token replaces all credentials except client certificates. A plain http
    server gets no credentials, so no plugin runs for it.
    """
    user = context.user
    if connection.server_url:  # it speaks for callers with tokens only
        user = {key: user[key] for key in user.keys() - _CERTIFICATE_KEYS}
    server = str(context.cluster.get("server"))
    if connection.anonymous or not _may_have_credentials(connection, server):
        return {}
    if connection.token:
        return {key: user[key] for key in user.keys() & _CERTIFICATE_KEYS} | {
            "token": connection.token
        }
    if "exec" in user and not {"token", "tokenFile"} & set(user):
        return _run_plugin(user["exec"], context)
    return user


def _is_encrypted(server: str) -> bool:
    return server.lower().startswith("https://")


def _on_loopback(url: str) -> bool:
    return bool(re.match(r"http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/|$)", url, re.I))


def _may_have_credentials(connection: Connection, server: str) -> bool:
    """As in kubectl, a token is not sent in plain text; only to this machine's own server."""
    return _is_encrypted(server) or (bool(connection.server_url) and _on_loopback(server))


def _run_plugin(plugin: Any, context: _Context) -> Entry:
    """Run a credential plugin; return the user entry. Raises ClusterError.

    As in kubectl, without a time limit: the user's own program may wait for a login in a browser.
    """
    command = str(plugin.get("command"))
    folder = str(Path(context.user_file).absolute().parent)
    cluster = ConfigNode("cluster", context.cluster, context.cluster_file)
    try:
        status = ExecProvider(ConfigNode("exec", plugin), folder, cluster).run()
        return _user_of(status)
    except ConfigException as error:
        why = str(error).removeprefix("exec: ")
    except OSError as error:
        why = error.strerror or "it cannot be run"
    except _MALFORMED:
        why = "its answer is not an ExecCredential with a token or a certificate"
    hint = str(plugin.get("installHint") or "log in and try again")
    raise ClusterError(f"the credential plugin {command} failed: {_one_line(why)}", _one_line(hint))


def _user_of(status: Entry) -> Entry:
    """Convert an ExecCredential status to a user entry. Raises LookupError if empty."""
    user: Entry = {}
    if status.get("token"):
        user["token"] = str(status["token"])
    if status.get("clientCertificateData"):
        pems = (status["clientCertificateData"], status["clientKeyData"])
        for name, pem in zip(_CERTIFICATES, pems, strict=True):
            user[f"{name}-data"] = b64encode(pem.encode()).decode()
    if not user:
        raise LookupError("neither token nor certificate")
    return user


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _load(merger: KubeConfigMerger, context: _Context, user: Entry, paths: str) -> Configuration:
    """Load certificates and tokens with the Kubernetes client."""
    name = context.name
    names = {"cluster": name, "user": name}
    cluster_node = {"name": name, "cluster": context.cluster}
    user_node = {"name": name, "user": user}
    config = {
        "contexts": [{"name": name, "context": names}],
        "clusters": [ConfigNode("clusters", cluster_node, context.cluster_file)],
        "users": [ConfigNode("users", user_node, context.user_file)],
    }
    loader = KubeConfigLoader(
        ConfigNode("kubeconfig", config),
        name,
        config_base_path=None,  # paths are relative to the file that contains them
        config_persister=merger.save_changes,  # saves refreshed OIDC tokens
    )
    configuration = Configuration()
    try:
        loader.load_and_set(configuration)
    except ConfigException as error:
        text = str(error).strip().rstrip(".")
        why = text.removeprefix("Invalid kube-config file. ")
        if text.startswith("File does not exist: "):
            missing = text.removeprefix("File does not exist: ")
            why = f"the certificate or key file {missing} does not exist"
        raise _reject(paths, why) from None
    return configuration


def _from_service_account(connection: Connection) -> Target:
    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except ConfigException as error:
        raise ClusterError(
            f"no kubeconfig, and this pod has no service account to use: {error}",
            "name one with --kubeconfig",
        ) from None
    _override(configuration, connection)
    pod_namespace = _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.exists() else "default"
    renewable = not connection.token and not connection.anonymous
    return _target(
        configuration, "in-cluster", connection.namespace or pod_namespace, renewable=renewable
    )


def _from_flags(connection: Connection) -> Target:
    configuration = Configuration()
    _override(configuration, connection)
    return _target(configuration, "", connection.namespace or "default")


def _override(configuration: Configuration, connection: Connection) -> None:
    if connection.server:
        configuration.host = connection.server
    if connection.anonymous:
        configuration.api_key = {}
    elif connection.token:
        configuration.api_key = {"BearerToken": f"Bearer {connection.token}"}
    if not _may_have_credentials(connection, str(configuration.host)):
        configuration.api_key = {}
    if connection.certificate_authority:
        configuration.ssl_ca_cert = connection.certificate_authority
    if connection.insecure:
        configuration.verify_ssl, configuration.ssl_ca_cert = False, None


def check_header(authorization: str) -> None:
    """Raise ClusterError for an authorization that no HTTP header may have."""
    if not _HEADER.fullmatch(authorization):
        raise ClusterError("the token has characters that no HTTP header may have", "log in again")


def _target(
    configuration: Configuration,
    context: str,
    namespace: str,
    *,
    renewable: bool = False,
) -> Target:
    server = str(configuration.host).rstrip("/")
    if "@" in server:
        raise ClusterError(
            "the server's address has credentials in it", "set them as the kubeconfig's user"
        )
    if not server.lower().startswith(("http://", "https://")):
        raise ClusterError(f'"{server}" is not a server address', "use https://HOST:PORT")
    authorization = str(configuration.api_key.get("BearerToken") or "").strip()
    if authorization:
        check_header(authorization)
    if not configuration.verify_ssl:  # requested by the user: do not warn on every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        client = Client(configuration)
    except (urllib3.exceptions.HTTPError, OSError, ValueError, ImportError) as error:
        raise ClusterError(f"cannot use the connection's settings: {error}") from None
    return Target(server, context, namespace, authorization, client, renewable)
