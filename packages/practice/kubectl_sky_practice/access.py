"""Authentication by tokens, and authorization by RBAC."""

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import NamedTuple
from urllib.parse import unquote

from starlette.datastructures import Headers

from kubectl_sky_practice import problems
from kubectl_sky_practice.api import Api
from kubectl_sky_practice.resources import Json

_AUTHENTICATION = "authentication.k8s.io"
_EXTRA = "impersonate-extra-"
_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "delete", "patch", "update"]
_GROUPS = ["", "batch", "networking.k8s.io"]
_VIEWED = [
    *("pods", "pods/log", "pods/status", "configmaps", "services", "serviceaccounts", "events"),
    *("persistentvolumeclaims", "resourcequotas", "limitranges", "namespaces"),
    *("jobs", "jobs/status", "ingresses", "networkpolicies"),
]
_EDITED = [*_VIEWED, "secrets", "pods/exec", "pods/portforward"]
_EDITED += ["serviceaccounts/token"]
_EDIT = {"apiGroups": _GROUPS, "resources": _EDITED, "verbs": _WRITE}
_ROLES = {
    "cluster-admin": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    "admin": [
        _EDIT,
        {"apiGroups": [_RBAC], "resources": ["roles", "rolebindings"], "verbs": _WRITE},
    ],
    "edit": [_EDIT],
    "view": [{"apiGroups": _GROUPS, "resources": _VIEWED, "verbs": _READ}],
}


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)


class Attempt(NamedTuple):
    """An action to authorize; `resource` has its subresource, as `pods/log`."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Access:
    """The users of the cluster: the admin, those named at the start, and service accounts."""

    def __init__(self, api: Api, users: Iterable[str]) -> None:
        self._api = api
        self._file = api.folder / "tokens.json"
        stored = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._tokens: dict[str, tuple[User, float]] = {
            token: (User(name, tuple(groups)), expiry)
            for token, (name, groups, expiry) in stored.items()
            if expiry == 0 or expiry > time.time()
        }
        self.admin = self.token("admin", ("system:masters",))
        self.others = {name: self.token(name) for name in users}
        for name, rules in _ROLES.items():
            if not api.state.get(f"clusterroles.{_RBAC}", "", name):
                api.create(f"clusterroles.{_RBAC}", {"metadata": {"name": name}, "rules": rules})

    def token(self, name: str, groups: tuple[str, ...] = (), seconds: float = 0) -> str:
        """Return a token of a user: the existing one, or a new one if it shall expire."""
        user = User(name, (*groups, "system:authenticated"))
        for token, (owner, expiry) in self._tokens.items():
            if owner == user and not expiry and not seconds:
                return token
        token = secrets.token_urlsafe(32)
        expires_at = time.time() + seconds if seconds else 0
        self._tokens[token] = (user, expires_at)
        self._file.touch(mode=0o600)
        stored = {
            key: (owner.name, owner.groups, expiry) for key, (owner, expiry) in self._tokens.items()
        }
        self._file.write_text(json.dumps(stored))
        return token

    def user(self, headers: Headers) -> User:
        """Return the user of these headers, impersonated by an admin or not. Raises Problem."""
        user = self._owner(headers.get("authorization", ""))
        name = _text(headers.get("impersonate-user", ""))
        uid = _text(headers.get("impersonate-uid", ""))
        groups = list(map(_text, headers.getlist("impersonate-group")))
        extra = _extra(headers)

        if not name:
            if groups or uid or extra:
                raise problems.bad_request("requested groups without impersonating a user")
            return user

        attempts = [("", "users", name), *(("", "groups", group) for group in groups)]
        attempts += [(_AUTHENTICATION, "uids", uid)] if uid else []
        for key, values in extra.items():
            attempts += [(_AUTHENTICATION, f"userextras/{key}", value) for value in values]

        for group, resource, value in attempts:
            self.check(user, Attempt("impersonate", group, resource, name=value))
        if "system:authenticated" not in groups:
            groups.append("system:authenticated")
        return User(name, tuple(groups), uid, extra)

    def _owner(self, authorization: str) -> User:
        scheme, _, token = authorization.partition(" ")
        for known, (user, expiry) in self._tokens.items():
            same = compare_digest(known.encode(), token.strip().encode())
            if same and scheme.lower() == "bearer" and (not expiry or expiry > time.time()):
                return user
        raise problems.unauthorized()

    def check(self, user: User, attempt: Attempt) -> None:
        """Refuse what RBAC does not allow. Raises Problem."""
        if self.allows(user, attempt):
            return
        namespace = attempt.namespace
        scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        storage = attempt.resource.partition("/")[0] + (attempt.group and f".{attempt.group}")
        action = f'User "{user.name}" cannot {attempt.verb} resource "{attempt.resource}"'
        message = f'{action} in API group "{attempt.group}" {scope}'
        raise problems.forbidden(storage, attempt.name, message)

    def allows(self, user: User, attempt: Attempt) -> bool:
        if "system:masters" in user.groups:
            return True
        return any(_permits(rule, attempt) for rule in self._rules(user, attempt.namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Json]:
        bindings = self._api.state.all(f"clusterrolebindings.{_RBAC}")
        if namespace:
            bindings = bindings + self._api.state.all(f"rolebindings.{_RBAC}", namespace)
        for binding in bindings:
            if any(_names(subject, user) for subject in binding.get("subjects") or ()):
                role = binding["roleRef"]
                scope = "" if role["kind"] == "ClusterRole" else namespace
                storage = f"{role['kind'].lower()}s.{_RBAC}"
                stored = self._api.state.get(storage, scope, role["name"]) or {}
                yield from stored.get("rules") or ()


def _extra(headers: Headers) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for name, value in headers.items():
        if name.startswith(_EXTRA):
            extra.setdefault(unquote(name.removeprefix(_EXTRA)), []).append(_text(value))
    return extra


def _text(value: str) -> str:
    """Return a header's value as the real server reads it: UTF-8."""
    return value.encode("latin-1").decode(errors="replace")


def _names(subject: Json, user: User) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    if subject["kind"] == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
    return bool(subject["name"] == user.name)


def _permits(rule: Json, attempt: Attempt) -> bool:
    def has(field: str, *values: str) -> bool:
        return not {"*", *values}.isdisjoint(rule.get(field) or ())

    names = rule.get("resourceNames")
    if names and attempt.name not in names:
        return False
    any_parent = f"*/{attempt.resource.partition('/')[2]}"
    return (
        has("verbs", attempt.verb)
        and has("apiGroups", attempt.group)
        and has("resources", attempt.resource, any_parent)
    )
