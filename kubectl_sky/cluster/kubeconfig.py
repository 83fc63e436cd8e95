"""Resolve server and credentials: kubeconfig, flags or service account.

The Kubernetes client merges the files and sets up TLS and proxies. This module adds kubectl's flags
and precedence rules, and reports each error in one line.
"""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import credential_plugin, kubeconfig_keys
from kubectl_sky.cluster.client import Client, choose_proxy
from kubectl_sky.cluster.connection import Connection, Contexts, Target
from kubectl_sky.cluster.impersonation import impersonate
from kubectl_sky.cluster.kubeconfig_keys import Entry, reject
from kubectl_sky.errors import ClusterError, UserError, did_you_mean
from kubectl_sky.words import decisions
from kubectl_sky.words.names import KUBERNETES_PATH

_DEFAULT_PATH = "~/.kube/config"
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_SECTIONS = ("clusters", "contexts", "users")
_CA = "certificate-authority"
_INSECURE = "insecure-skip-tls-verify"
_TLS_NAME = "tls-server-name"
_CERTIFICATES = ("client-certificate", "client-key")
_CERTIFICATE_KEYS = frozenset({*_CERTIFICATES, *(f"{name}-data" for name in _CERTIFICATES)})
_FILES = (_CA, *_CERTIFICATES, "tokenFile")  # paths relative to the file that contains them
_IN_HEADER = frozenset({"token", "tokenFile", "username", "password"})  # win over auth-provider
_STATIC = _IN_HEADER | {"client-certificate", "client-certificate-data"}  # win over exec
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
    """A context with its entries and flags applied, and the file of the user."""

    name: str
    namespace: str
    cluster: Entry
    user: Entry
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
        raise reject(paths, f"{error.filename}: {error.strerror}") from None
    except _MALFORMED:
        raise reject(paths, "its certificates or credentials are damaged") from None
    if "auth-provider" in user and not configuration.api_key:
        raise reject(paths, "the id-token of its auth-provider is not valid", "log in again")

    renewable = bool({"exec", "tokenFile", "auth-provider"} & set(context.user))
    renewable = renewable and not (connection.anonymous or connection.token)
    target = _target(
        configuration,
        context.name,
        context.namespace,
        renewable=renewable,
        proxy_url=context.cluster.get("proxy-url", ""),
    )
    return replace(
        target,
        user=context.user_name,
        impersonation=impersonate(connection, context.user),
        compressed=not context.cluster.get("disable-compression"),
    )


class _Merger(KubeConfigMerger):
    """Merges files as kubectl does, which also takes empty ones and UTF-16."""

    def load_config(self, path: str) -> None:
        config = yaml.safe_load(Path(path).read_bytes())
        if config is None:
            config = {}
        if self.config_merged is None:
            self.config_merged = ConfigNode(path, {section: [] for section in _SECTIONS}, path)
        for section in _SECTIONS:
            items = config.get(section) or []
            self._merge(section, items, path)  # type: ignore[no-untyped-call]
        self.config_files[path] = config


def _read(paths: str) -> KubeConfigMerger:
    """Read and merge kubeconfig files. Raises ClusterError for invalid files."""
    try:
        merger = _Merger(paths)  # type: ignore[no-untyped-call]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise reject(paths, f"not YAML{line}") from None
    except (ConfigException, RecursionError, *_MALFORMED):
        raise reject(paths, "not a kubeconfig") from None
    except OSError as error:
        raise reject(paths, error.strerror or "cannot be read") from None
    if not isinstance(merger.config, ConfigNode):
        raise reject(paths, "not a kubeconfig")
    return merger


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
            return _clean(kind, name, entry, node.path), node.path
    names = _names(merger, f"{kind}s")
    similar = did_you_mean(str(name), names)
    hint = f"{similar}it has: {', '.join(names) or 'none'}" + (
        "; the name of a task is --name" if kind == "cluster" else ""
    )
    raise ClusterError(f'{kind} "{name}" not found in the kubeconfig {paths}', hint)


def _clean(kind: str, name: object, entry: Entry, path: str) -> Entry:
    """Return an entry without empty values, and with absolute paths. Raises ClusterError."""
    entry = {key: value for key, value in entry.items() if value not in ("", None)}
    if kind != "context":
        kubeconfig_keys.check(kind, name, entry, path)
        folder = Path(path).absolute().parent
        entry |= {key: os.path.normpath(folder / entry[key]) for key in _FILES if key in entry}
    return entry


def _context(connection: Connection, merger: KubeConfigMerger, name: str, paths: str) -> _Context:
    if not name:
        names = ", ".join(_names(merger, "contexts"))
        if not names:
            hint = "name another one with --kubeconfig; to try it here: kubectl sky local up"
            raise ClusterError(f"the kubeconfig {paths} has no contexts", hint)
        raise ClusterError(
            f"the kubeconfig {paths} has no current context",
            f"choose one with --context; it has: {names}",
        )

    context, _ = _find(merger, "context", name, paths)
    cluster_name = connection.cluster or context.get("cluster")
    cluster, _ = _find(merger, "cluster", cluster_name, paths)
    user: Entry = {}
    user_file = ""
    if "user" in context:
        user, user_file = _find(merger, "user", context["user"], paths)

    namespace = connection.namespace or str(context.get("namespace") or "default")
    why = "set by --context or the file" if connection.context else f"the current one of {paths}"
    decisions.log_decision(f"context {name}", why)
    why = "that of the context" if context.get("namespace") else "the context has none"
    why = "set by --namespace" if connection.namespace else why
    decisions.log_decision(f"namespace {namespace}", why)
    return _Context(
        name,
        namespace,
        _with_flags(connection, cluster, paths),
        _with_certificates(connection, user),
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
    flags = {_TLS_NAME: connection.tls_server_name, _INSECURE: connection.insecure}
    cluster = cluster | {key: value for key, value in flags.items() if value is not None}

    authority = {_CA, f"{_CA}-data"} & set(cluster)
    if connection.insecure:
        cluster = {key: value for key, value in cluster.items() if key not in authority}
        authority = set()

    if not cluster.get("server"):
        raise reject(paths, "its cluster has no server")
    if cluster.get(_INSECURE) and authority:
        raise reject(paths, f"{_INSECURE} together with {_CA} is not allowed")
    return cluster


def _with_certificates(connection: Connection, user: Entry) -> Entry:
    """Return a user entry with the certificate and key of the flags in place of its own."""
    flags = {
        "client-certificate": connection.client_certificate,
        "client-key": connection.client_key,
    }
    for key, path in flags.items():
        if path:
            user = {name: user[name] for name in user.keys() - {f"{key}-data"}}
            user[key] = str(Path(path).absolute())
    return user


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

    given = set(user)
    if "exec" in given and not _STATIC & given:
        return credential_plugin.run(user["exec"], context.user_file, context.cluster)
    ignored = {"exec", "auth-provider"} if _IN_HEADER & given else {"exec"}
    if {"username", "password"} & given:
        user = {"username": "", "password": "", **user}
    return {key: user[key] for key in user.keys() - ignored}


def _is_encrypted(server: str) -> bool:
    return server.lower().startswith("https://")


def _on_loopback(url: str) -> bool:
    return bool(re.match(r"http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/|$)", url, re.I))


def _may_have_credentials(connection: Connection, server: str) -> bool:
    """As in kubectl, a token is not sent in plain text; only to this machine's own server."""
    return _is_encrypted(server) or (bool(connection.server_url) and _on_loopback(server))


def _load(merger: KubeConfigMerger, context: _Context, user: Entry, paths: str) -> Configuration:
    """Load certificates and tokens with the Kubernetes client."""
    name = context.name
    names = {"cluster": name, "user": name}
    config = {
        "contexts": [{"name": name, "context": names}],
        "clusters": [{"name": name, "cluster": context.cluster}],
        "users": [{"name": name, "user": user}],
    }

    loader = KubeConfigLoader(
        ConfigNode("kubeconfig", config),
        name,
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
        raise reject(paths, why) from None
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
    decisions.log_decision("context in-cluster", "this is a pod, and there is no kubeconfig")
    target = _target(
        configuration, "in-cluster", connection.namespace or pod_namespace, renewable=renewable
    )
    return replace(target, impersonation=impersonate(connection, {}))


def _from_flags(connection: Connection) -> Target:
    configuration = Configuration()
    _override(configuration, connection)
    target = _target(configuration, "", connection.namespace or "default")
    return replace(target, impersonation=impersonate(connection, {}))


def _override(configuration: Configuration, connection: Connection) -> None:
    flags = {
        "host": connection.server,
        "ssl_ca_cert": connection.certificate_authority,
        "tls_server_name": connection.tls_server_name,
    }
    if not connection.anonymous:
        flags["cert_file"] = connection.client_certificate
        flags["key_file"] = connection.client_key
    for name, value in flags.items():
        if value:
            setattr(configuration, name, value)

    if connection.anonymous:
        configuration.api_key = {}
    elif connection.token:
        configuration.api_key = {"BearerToken": f"Bearer {connection.token}"}
    if not _may_have_credentials(connection, str(configuration.host)):
        configuration.api_key = {}
    if connection.insecure:
        configuration.verify_ssl = False
        configuration.ssl_ca_cert = None


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
    proxy_url: str = "",
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
        proxy = choose_proxy(configuration, proxy_url)
        client = Client(configuration)
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise ClusterError(f"cannot use the connection's settings: {error}") from None
    return Target(server, context, namespace, authorization, client, renewable, proxy=proxy)
