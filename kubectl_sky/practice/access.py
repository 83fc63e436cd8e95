"""Who asks, by the token, and what RBAC lets them do."""

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hmac import compare_digest
from typing import NamedTuple

from starlette.datastructures import Headers

from kubectl_sky.practice import problems
from kubectl_sky.practice.api import Api
from kubectl_sky.practice.resources import Json

_RBAC = "rbac.authorization.k8s.io"
_READ, _WRITE = (
    ["get", "list", "watch"],
    ["create", "delete", "deletecollection", "patch", "update"],
)
_OURS = ["", "batch", "networking.k8s.io"]
_SECRET = {"secrets", "pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token"}
_SEEN = ["pods", "pods/log", "pods/status", "configmaps", "services", "serviceaccounts", "events"]
_SEEN += ["persistentvolumeclaims", "resourcequotas", "limitranges", "namespaces", "jobs"]
_SEEN += ["jobs/status", "ingresses", "networkpolicies"]
_VIEW = {"apiGroups": _OURS, "resources": _SEEN, "verbs": _READ}
_EDIT = {"apiGroups": _OURS, "resources": [*_SEEN, *sorted(_SECRET)], "verbs": [*_READ, *_WRITE]}
_ADMIN = {"apiGroups": [_RBAC], "resources": ["roles", "rolebindings"], "verbs": [*_READ, *_WRITE]}
_ROLES = {
    "cluster-admin": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    "admin": [_EDIT, _ADMIN],
    "edit": [_EDIT],
    "view": [_VIEW],
}


@dataclass(frozen=True)
class User:
    """Somebody whose token is known."""

    name: str
    groups: tuple[str, ...]


class Attempt(NamedTuple):
    """What somebody wants to do; the subresource stands in `resource` as `pods/log`."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Access:
    """The users of the cluster: the administrator, those named at the start, and accounts."""

    def __init__(self, api: Api, users: Iterable[str]) -> None:
        self._api = api
        self._file = api.folder / "tokens.json"
        known = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._tokens: dict[str, tuple[User, float]] = {
            token: (User(name, tuple(groups)), until)
            for token, (name, groups, until) in known.items()
            if until == 0 or until > time.time()
        }
        self.admin = self.token("admin", ("system:masters",))
        self.others = {name: self.token(name) for name in users}
        for name, rules in _ROLES.items():
            if not api.state.get(f"clusterroles.{_RBAC}", "", name):
                api.create(f"clusterroles.{_RBAC}", {"metadata": {"name": name}, "rules": rules})

    def token(self, name: str, groups: tuple[str, ...] = (), seconds: float = 0) -> str:
        """Return a user's token: the one he has, or a new one that is good for some time."""
        user = User(name, (*groups, "system:authenticated"))
        for token, (known, until) in self._tokens.items():
            if known == user and not until and not seconds:
                return token
        token = secrets.token_urlsafe(32)
        self._tokens[token] = (user, time.time() + seconds if seconds else 0)
        self._file.touch(mode=0o600)
        known_users = {
            key: (one.name, one.groups, until) for key, (one, until) in self._tokens.items()
        }
        self._file.write_text(json.dumps(known_users))
        return token

    def user(self, headers: Headers) -> User:
        """Return who sends these headers, or as whom an administrator does. Raises Problem."""
        user = self._owner(headers.get("authorization", ""))
        other = headers.get("impersonate-user")
        if not other and "impersonate-group" in headers:
            raise problems.bad_request("requested groups without impersonating a user name")
        if not other:
            return user
        self.check(user, Attempt("impersonate", "", "users", name=other))
        return User(other, (*headers.getlist("impersonate-group"), "system:authenticated"))

    def _owner(self, authorization: str) -> User:
        scheme, _, token = authorization.partition(" ")
        for known, (user, until) in self._tokens.items():
            same = compare_digest(known.encode(), token.strip().encode())
            if same and scheme.lower() == "bearer" and (not until or until > time.time()):
                return user
        raise problems.unauthorized()

    def check(self, user: User, attempt: Attempt) -> None:
        """Refuse what RBAC does not allow. Raises Problem."""
        if self.allows(user, attempt):
            return
        where = (
            f'in the namespace "{attempt.namespace}"'
            if attempt.namespace
            else "at the cluster scope"
        )
        storage = attempt.resource.partition("/")[0] + (attempt.group and f".{attempt.group}")
        asked = f'User "{user.name}" cannot {attempt.verb} resource "{attempt.resource}"'
        why = f'{asked} in API group "{attempt.group}" {where}'
        raise problems.forbidden(storage, attempt.name, why)

    def allows(self, user: User, attempt: Attempt) -> bool:
        """Say whether RBAC allows an attempt."""
        if "system:masters" in user.groups:
            return True
        return any(_covers(rule, attempt) for rule in self._rules(user, attempt.namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Json]:
        bindings = self._api.state.all(f"clusterrolebindings.{_RBAC}")
        if namespace:
            bindings = bindings + self._api.state.all(f"rolebindings.{_RBAC}", namespace)
        for binding in bindings:
            if any(_is(subject, user) for subject in binding.get("subjects") or ()):
                role = binding["roleRef"]
                where = "" if role["kind"] == "ClusterRole" else namespace
                storage = f"{role['kind'].lower()}s.{_RBAC}"
                yield from (self._api.state.get(storage, where, role["name"]) or {}).get(
                    "rules"
                ) or ()


def _is(subject: Json, user: User) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    if subject["kind"] == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
    return bool(subject["name"] == user.name)


def _covers(rule: Json, attempt: Attempt) -> bool:
    def has(field: str, wanted: str) -> bool:
        return bool({"*", wanted} & set(rule.get(field) or ()))

    names = rule.get("resourceNames")
    if names and attempt.name not in names:
        return False
    return (
        has("verbs", attempt.verb)
        and has("apiGroups", attempt.group)
        and (
            has("resources", attempt.resource)
            or f"*/{attempt.resource.partition('/')[2]}" in (rule.get("resources") or ())
        )
    )
