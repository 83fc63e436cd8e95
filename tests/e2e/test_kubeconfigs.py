"""Kinds of kubeconfigs: who the cluster sees, and what that user may list, as with kubectl."""

import sys
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.target import Cluster, selected
from tests.contract.socks import SocksProxy
from tests.e2e.command import PROGRAM, Command, InProcess

Json = dict[str, Any]

ADMIN = "the administrator"
PLUGIN = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
if os.environ.get("WANTS") == "cluster":
    assert info["spec"]["cluster"]["certificate-authority-data"]
    assert info["spec"]["cluster"]["config"] == {"audience": "tests"}
credential = {"apiVersion": info["apiVersion"], "kind": "ExecCredential"}
print(json.dumps(credential | {"status": {"token": TOKEN}}))
"""
EXTENSION = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "tests"}}


@dataclass
class Draft:
    """A kubeconfig in `folder`, that of an administrator with a token until a case changes it."""

    folder: Path
    cluster: Json
    user: Json
    socks: str
    files: list[str] = field(default_factory=lambda: ["config"])

    def text(self) -> str:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": self.cluster}],
            "users": [{"name": "me", "user": self.user}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        return yaml.safe_dump(config, allow_unicode=True)

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name


Change = Callable[[Draft], None]


def plugin(version: str = "v1", body: str = PLUGIN, **more: object) -> Change:
    """Get the token from a credential plugin."""

    def change(draft: Draft) -> None:
        script = body.replace("TOKEN", repr(draft.user["token"]))
        path = draft.folder / draft.write("plugin.py", script)
        call = {"command": sys.executable, "args": [str(path)], "env": None}
        version_key = {"apiVersion": f"client.authentication.k8s.io/{version}"}
        draft.user = {"exec": {**version_key, "interactiveMode": "Never", **call, **more}}

    return change


def ask_for_cluster(draft: Draft) -> None:
    draft.cluster["extensions"] = [EXTENSION]
    plugin(provideClusterInfo=True, env=[{"name": "WANTS", "value": "cluster"}])(draft)


def use_token_file(draft: Draft) -> None:
    draft.user = {"tokenFile": draft.write("token", f"{draft.user['token']}\n")}


def use_ca_file(draft: Draft) -> None:
    data = b64decode(draft.cluster.pop("certificate-authority-data"))
    draft.cluster["certificate-authority"] = draft.write("ca.crt", data)


def skip_verification(draft: Draft) -> None:
    del draft.cluster["certificate-authority-data"]
    draft.cluster["insecure-skip-tls-verify"] = True


def use_socks(draft: Draft) -> None:
    draft.cluster |= {"server": "https://only-the-proxy-knows.invalid"}
    draft.cluster |= {"tls-server-name": "localhost", "proxy-url": f"socks5://{draft.socks}"}


def begin_with_empty_file(draft: Draft) -> None:
    draft.files.insert(0, draft.write("empty", ""))


def split_files(draft: Draft) -> None:
    """The user, with a relative path, is in a file in another folder."""
    draft.write("users/token", draft.user["token"])
    user = {"name": "me", "user": {"tokenFile": "token"}}
    draft.files.insert(0, draft.write("users/config", yaml.safe_dump({"users": [user]})))
    draft.user = {"token": "of the second file, which does not count"}


@dataclass(frozen=True)
class Case:
    """What a kubeconfig has, and who acts then: `who`, who may list jobs or not.

    Without `who` all commands fail, with `error` in the message. A case is `ignored` where kubectl
    drops a key that it does not know.
    """

    change: Change = lambda draft: None
    user: Mapping[str, object] = field(default_factory=dict)
    cluster: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    encoding: str = "utf-8"
    who: str = ""
    lists: bool = True
    error: str = ""
    ignored: bool = False


JANE = {"as": "jane", "as-groups": ["system:masters"]}
NEVER_RUN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "interactiveMode": "Never",
    "command": "false",
}
CASES = {
    "token": Case(who=ADMIN),
    "token-file": Case(use_token_file, who=ADMIN),
    "plugin": Case(plugin(), who=ADMIN),
    "plugin-v1beta1": Case(plugin("v1beta1"), who=ADMIN),
    "plugin-with-cluster": Case(ask_for_cluster, who=ADMIN),
    "plugin-not-installed": Case(plugin(command="no-such-plugin"), error="is not installed"),
    "plugin-fails": Case(plugin(body="raise SystemExit(3)"), error="failed (exit code 3)"),
    "plugin-without-json": Case(plugin(body="print('hi')"), error="it prints no JSON"),
    "token-and-plugin": Case(user={"exec": NEVER_RUN}, who=ADMIN),
    "token-and-password": Case(user={"username": "x"}, error="has a token and a password"),
    "auth-provider": Case(
        user={"auth-provider": {"name": "gcp"}}, error="install gke-gcloud-auth-plugin"
    ),
    "as": Case(user={"as": "jane", "as-groups": ["dev"]}, who="jane", lists=False),
    "as-groups": Case(user=JANE, who="jane"),
    "as-uid-and-extra": Case(
        user=JANE | {"as-uid": "7", "as-user-extra": {"a.example/b": ["c"]}}, who="jane"
    ),
    "as-and-flag": Case(user=JANE, flags=("--as=bob",), who="bob"),
    "as-and-flag-for-groups": Case(user=JANE, flags=("--as-group=dev",), who="jane", lists=False),
    "as-groups-without-as": Case(user={"as-groups": ["dev"]}, error="without as"),
    "as-is-number": Case(user={"as": 7}, error="is not a string"),
    "unknown-key-of-user": Case(
        user={"as-group": ["dev"]}, error='unknown key "as-group"', ignored=True
    ),
    "unknown-key-of-cluster": Case(
        cluster={"proxy": "x"}, error='unknown key "proxy"', ignored=True
    ),
    "ca-file": Case(use_ca_file, who=ADMIN),
    "no-verification": Case(skip_verification, who=ADMIN),
    "wrong-tls-server-name": Case(
        cluster={"tls-server-name": "other"}, error="its certificate is for another host name"
    ),
    "socks-proxy": Case(use_socks, who=ADMIN),
    "no-compression": Case(cluster={"disable-compression": True}, who=ADMIN),
    "empty-file-first": Case(begin_with_empty_file, who=ADMIN),
    "two-files": Case(split_files, who=ADMIN),
    "utf-16": Case(user=JANE | {"as": "jäne"}, encoding="utf-16", who="jäne"),
    "byte-order-mark": Case(encoding="utf-8-sig", who=ADMIN),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


@pytest.fixture
def draft(cluster: Cluster, tmp_path: Path) -> Iterator[Draft]:
    server, user = selected(yaml.safe_load(cluster.kubeconfig.read_text()))
    with closing(SocksProxy(server["server"])) as socks:
        yield Draft(tmp_path, server, user, socks.address)


@pytest.fixture
def who(cluster: Cluster, case: Case) -> str:
    """The user of the case."""
    if case.who != ADMIN:
        return case.who
    return CoreManager(Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))).whoami()


def with_case(environment: Mapping[str, str], draft: Draft, case: Case) -> dict[str, str]:
    """Write the kubeconfig of a case; return the environment that names it."""
    case.change(draft)
    draft.user |= case.user
    draft.cluster |= case.cluster
    draft.write("config", draft.text().encode(case.encoding))
    files = ":".join(str(draft.folder / name) for name in draft.files)
    return {**environment, "KUBECONFIG": files}


@pytest.mark.practice_only
@each_case
def test_kubeconfig_acts_as_its_user_or_is_refused(
    environment: dict[str, str], draft: Draft, case: Case, who: str
) -> None:
    sky = InProcess(PROGRAM, with_case(environment, draft, case), draft.folder)
    listed = sky("list", *case.flags)
    if not who:
        assert (listed.returncode, listed.stdout) == (3, "")
        assert case.error in listed.stderr
        return
    assert sky.json("auth", "whoami", *case.flags)["username"] == who
    assert listed.returncode == (0 if case.lists else 3), listed.stderr


@pytest.mark.practice_only
@each_case
def test_kubectl_with_same_kubeconfig_acts_as_same_user(
    environment: dict[str, str], kubectl: Command, draft: Draft, case: Case, who: str
) -> None:
    command = replace(kubectl, environment=with_case(environment, draft, case))
    listed = command("get", "jobs", *case.flags)
    if not who:
        assert (listed.returncode == 0) is case.ignored, listed.stderr
        return
    review = command.json("auth", "whoami", *case.flags)
    assert review["status"]["userInfo"]["username"] == who
    assert (listed.returncode == 0) is case.lists, listed.stderr
