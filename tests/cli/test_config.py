"""`config` shows where settings come from, and changes the file without losing comments."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubectl_sky.cli.main import sky
from kubectl_sky.errors import SkyError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("KUBECTL_SKY_SERVER", "K8S_CLI_API_URL", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sky, ["config", *arguments], prog_name="kubectl sky")


def refused(*arguments: str) -> str:
    done = run(*arguments)
    assert isinstance(done.exception, SkyError), done.output
    assert done.exception.exit_code == 2
    return str(done.exception)


def sources() -> dict[str, tuple[object, str]]:
    rows = json.loads(run("view", "-o", "json").output)["settings"]
    return {row["name"]: (row["value"], row["source"]) for row in rows}


def test_config_set_creates_file_with_schema_and_get_reads_it(folder: Path) -> None:
    assert run("set", "queue", "team").output == f"queue set in {folder}/settings.yaml\n"
    text = (folder / "settings.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=https://")
    assert text.endswith("/schemas/settings.json\nqueue: team\n")
    assert run("get", "queue").output == "team\n"
    assert run("path").output == f"{folder}/settings.yaml\n"


def test_config_view_names_line_default_and_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_SERVER", "https://me:secret@sky.example.com/x")
    run("set", "queue", "team")
    run("set", "ports.expose", "nodeport")
    rows = sources()
    assert rows["queue"] == ("team", f"{folder}/settings.yaml:2")
    assert rows["ports"] == ({"expose": "nodeport"}, f"{folder}/settings.yaml:3")
    assert rows["max_gib"] == (4, "default")
    assert rows["KUBECTL_SKY_SERVER"] == ("https://sky.example.com/x", "environment")
    assert "default_store" not in rows
    assert "secret" not in run("view").output


def test_config_view_hides_invalid_url_with_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_SKY_SERVER", "http://me:secret@[x")
    assert sources()["KUBECTL_SKY_SERVER"] == ("an invalid URL", "environment")


def test_config_get_unset_prints_default_or_empty_line() -> None:
    assert run("get", "max_gib").output == "4\n"
    assert run("get", "ports.expose").output == "clusterip\n"
    assert run("get", "default_store").output == "\n"
    assert refused("get", "qeue") == 'setting "qeue" not found; did you mean "queue"?'


def test_config_set_keeps_comments_and_mode(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    file = folder / "settings.yaml"
    file.write_text("# mine\nqueue: a   # why\nmax_gib: 3\n")
    file.chmod(0o644)
    run("set", "queue", "b")
    run("unset", "max_gib")
    assert file.read_text() == "# mine\nqueue: b   # why\n"
    assert file.stat().st_mode & 0o777 == 0o644


def test_config_set_follows_link_of_settings_file(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    (tmp_path / "dotfile").write_text("queue: a\n")
    (folder / "settings.yaml").symlink_to(tmp_path / "dotfile")
    assert run("set", "queue", "b").exit_code == 0
    assert (folder / "settings.yaml").is_symlink()
    assert (tmp_path / "dotfile").read_text() == "queue: b\n"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("max_gib", "two", 'max_gib: expected a whole number of GiB such as 20, got "two"'),
        ("backend", "foo", "backend: expected one of auto, jobs"),
        ("ports.expose", "[", "ports.expose: expected one of clusterip"),
        ("host_paths", "[", "host_paths: invalid YAML"),
        ("max_gib", "2001-99-99", 'max_gib: invalid YAML: "2001-99-99"'),
        ("image", "a\nbackend: indexed", "image: the value must be one line of text"),
        ("image", "a\x1b[2J", "image: the value must be one line of text"),
        ("image", "a\udcff", "image: the value must be one line of text"),
        ("queue..x", "a", 'invalid setting "queue..x"'),
        ("zzzz", "a", 'setting "zzzz" not found; run `kubectl sky explain settings` for all'),
        ("prometheus", "http://me:pw@prom", 'or a query, got "http://…@prom"'),
        ("history", "99999", "expected a whole number of tasks, at most 10,000, got 99999"),
        ("stores.s3.endpoint", "ftp://x", "stores.s3.endpoint: expected an address"),
    ],
)
def test_config_set_invalid_value_leaves_file_as_it_is(
    folder: Path, setting: str, value: str, message: str
) -> None:
    run("set", "queue", "team")
    before = (folder / "settings.yaml").read_text()
    assert message in refused("set", setting, value)
    assert (folder / "settings.yaml").read_text() == before


def test_config_set_that_would_lose_comments_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    file = folder / "settings.yaml"
    file.write_text("ports:\n  expose: podip # a\n  annotations: {x: y}\n")
    message = refused("set", "ports", "{expose: nodeport}")
    assert "line 2 cannot be edited without losing something; edit ports by hand" in message
    file.write_text("queue: [")
    assert "invalid YAML" in refused("set", "queue", "b") or "[" in refused("view")
    assert file.read_text() == "queue: ["


def test_config_unset_of_unset_is_refused() -> None:
    assert "queue is not set in" in refused("unset", "queue")


def test_config_wildcard_in_setting_is_refused() -> None:
    assert 'invalid setting "stores.*"' in refused("get", "stores.*")
    assert 'invalid setting "stores.*.endpoint"' in refused("set", "stores.*.endpoint", "x")
