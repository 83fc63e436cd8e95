"""Inner classes of the package `kubernetes` that cluster/ uses, as far as it uses them.

They are not documented. A new version of the package fails here first, with the name of what it
changed; kubeconfigs are tested with kubectl in tests/e2e/test_kubeconfigs.py.
"""

from pathlib import Path
from typing import Any

import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger


def write(path: Path, name: str, **fields: Any) -> str:
    """Write a kubeconfig with one context, cluster and user of a name."""
    config = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}}],
        "users": [{"name": name, "user": {"token": f"token-of-{name}"}}],
    }
    path.write_text(yaml.safe_dump(config | fields))
    return str(path)


def test_merger_keeps_each_file_and_the_place_of_each_entry(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "west")
    second = write(tmp_path / "b", "east", **{"current-context": "east"})
    merger = KubeConfigMerger(f"{first}:{second}")
    assert list(merger.config_files) == [first, second]
    assert merger.config_files[second]["current-context"] == "east"
    assert isinstance(merger.config, ConfigNode)
    clusters = [(node.value["name"], node.path) for node in merger.config.value["clusters"]]
    assert clusters == [("west", first), ("east", second)]
    assert callable(merger.save_changes)


def test_merger_merges_a_section_into_what_it_has(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "west")
    merger = KubeConfigMerger(path)
    user = {"name": "other", "user": {}}
    merger._merge("users", [user], path)
    assert [node.value["name"] for node in merger.config.value["users"]] == ["west", "other"]


def test_loader_sets_server_and_token_of_a_context() -> None:
    entry = {"name": "west", "context": {"cluster": "west", "user": "west"}}
    config = {
        "current-context": "west",
        "contexts": [entry],
        "clusters": [{"name": "west", "cluster": {"server": "https://west"}}],
        "users": [{"name": "west", "user": {"token": "secret"}}],
    }
    loader = KubeConfigLoader(ConfigNode("kubeconfig", config), "west", config_persister=None)
    configuration = Configuration()
    loader.load_and_set(configuration)
    assert configuration.host == "https://west"
    assert configuration.api_key == {"BearerToken": "Bearer secret"}


def test_exec_provider_has_command_and_environment_of_a_plugin(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "login",
        "args": ["--now"],
        "env": [{"name": "REGION", "value": "west"}],
    }
    provider = ExecProvider(ConfigNode("exec", plugin), str(tmp_path))
    assert provider.args == ["login", "--now"]
    assert provider.env["REGION"] == "west"
    assert (provider.api_version, provider.cwd) == (plugin["apiVersion"], str(tmp_path))
