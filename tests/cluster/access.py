"""Users for a cluster that somebody else made: two accounts in a namespace of their own."""

import json
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster.shell import Broken, Command, run
from tests.cluster.target import ADMIN, OTHERS


class Access:
    """Makes a kubeconfig with the contexts of the tests out of one with an administrator."""

    def __init__(self, kubectl: Path, given: str, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._kubectl = kubectl
        self._given = given
        self._namespace = f"kubectl-sky-users-{secrets.token_hex(4)}"

    def create(self) -> dict[str, str]:
        """Make accounts and kubeconfig; return the users' names by context. Raises Broken."""
        config = json.loads(self._run("config", "view", "--raw", "--flatten", "-o", "json"))
        known = {context["name"]: context["context"] for context in config.get("contexts") or []}
        current = config.get("current-context")
        if current not in known:
            raise Broken(f"the kubeconfig {self._given} has no current context")
        administrator = {**known[current], "namespace": "default"}
        config["contexts"] = [{"name": ADMIN, "context": administrator}]
        config["current-context"] = ADMIN

        if all(name in known for name in OTHERS):
            config["contexts"] += [{"name": name, "context": known[name]} for name in OTHERS]
            self._write(config)
            return {name: self._whoami(name) for name in OTHERS}

        self._run("create", "namespace", self._namespace)
        for name in OTHERS:
            self._add_account(config, name, administrator["cluster"])
        self._write(config)
        return {name: f"system:serviceaccount:{self._namespace}:{name}" for name in OTHERS}

    def remove(self) -> None:
        """Remove the accounts; the namespace goes on its own."""
        with suppress(Broken):  # the cluster may have gone first
            self._run("delete", "namespace", self._namespace, "--ignore-not-found", "--wait=false")

    def _add_account(self, config: dict[str, Any], name: str, cluster: str) -> None:
        self._run("create", "serviceaccount", name, "--namespace", self._namespace)
        arguments = ("--namespace", self._namespace, "--duration=8h")
        token = self._run("create", "token", name, *arguments).strip()
        user = f"{self._namespace}-{name}"
        config["users"].append({"name": user, "user": {"token": token}})
        context = {"cluster": cluster, "user": user}
        config["contexts"].append({"name": name, "context": context})

    def _whoami(self, context: str) -> str:
        command: Command = [self._kubectl, "--kubeconfig", self.kubeconfig, "--context", context]
        review = json.loads(run([*command, "auth", "whoami", "-o", "json"]))
        return str(review["status"]["userInfo"]["username"])

    def _write(self, config: dict[str, Any]) -> None:
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config))

    def _run(self, *arguments: str) -> str:
        return run([self._kubectl, *arguments], environment={"KUBECONFIG": self._given})
