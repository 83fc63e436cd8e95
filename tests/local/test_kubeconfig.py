"""The kubeconfig of the user: changed only on request, atomically, and only our context."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.local import kubeconfig

CONTEXT = {"name": "work", "context": {"cluster": "office", "user": "me", "namespace": "team"}}
USERS = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "office", "cluster": {"server": "https://office", "extra": [1]}}],
    "users": [{"name": "me", "user": {"exec": {"command": "login"}}}],
    "contexts": [CONTEXT],
    "current-context": "work",
}


def given(port: int = 6445) -> dict[str, Any]:
    """Return a kubeconfig as a driver prints it."""
    return {
        "clusters": [
            {"name": "other", "cluster": {"server": "https://other"}},
            {"name": "kind-x", "cluster": {"server": f"https://127.0.0.1:{port}"}},
        ],
        "users": [{"name": "kind-x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "kind-x", "user": "kind-x"}}],
        "current-context": "x",
    }


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "kube" / "config"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(USERS))
    return path


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_sky_local_only_keeps_current_context() -> None:
    own = kubeconfig.sky_local_only(given())
    assert kubeconfig.server(own) == "https://127.0.0.1:6445"
    assert len(own["clusters"]) == len(own["users"]) == len(own["contexts"]) == 1
    again = kubeconfig.sky_local_only(own)
    assert again == own


@pytest.mark.parametrize("section", ["clusters", "users", "contexts"])
def test_sky_local_only_incomplete_kubeconfig_is_error(section: str) -> None:
    with pytest.raises(SkyError, match=f"lacks .* among its {section}"):
        kubeconfig.sky_local_only({**given(), section: []})


@pytest.mark.parametrize("text", ["", "[", "- a", "a: b", "\t"])
def test_parse_invalid_kubeconfig_is_error(text: str) -> None:
    with pytest.raises(SkyError, match="returned no kubeconfig"):
        kubeconfig.parse(text)


def test_use_then_forget_restores_kubeconfig(users: Path) -> None:
    assert kubeconfig.use(users, kubeconfig.sky_local_only(given())) == "work"
    merged = read(users)
    assert merged["current-context"] == "sky-local"
    assert [item["name"] for item in merged["contexts"]] == ["work", "sky-local"]
    assert merged["preferences"] == USERS["preferences"]
    assert users.stat().st_mode & 0o777 == 0o600
    assert list(users.parent.iterdir()) == [users]
    kubeconfig.forget(users, "work")
    assert read(users) == USERS


def test_use_again_updates_address(users: Path) -> None:
    kubeconfig.use(users, kubeconfig.sky_local_only(given()))
    assert kubeconfig.use(users, kubeconfig.sky_local_only(given(7000))) == "sky-local"
    merged = read(users)
    assert [item["name"] for item in merged["clusters"]] == ["office", "sky-local"]
    assert kubeconfig.server(merged) == "https://127.0.0.1:7000"


def test_forget_keeps_context_chosen_meanwhile(users: Path) -> None:
    kubeconfig.use(users, kubeconfig.sky_local_only(given()))
    users.write_text(users.read_text().replace("current-context: sky-local", "current-context: z"))
    kubeconfig.forget(users, "work")
    assert read(users)["current-context"] == "z"


def test_forget_missing_previous_context_clears_current(users: Path) -> None:
    kubeconfig.use(users, kubeconfig.sky_local_only(given()))
    kubeconfig.forget(users, "gone")
    assert read(users)["current-context"] == ""
    kubeconfig.forget(users.with_name("none"), None)
    assert not users.with_name("none").exists()


def test_use_creates_missing_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    assert kubeconfig.use(path, kubeconfig.sky_local_only(given())) is None
    assert read(path) == kubeconfig.sky_local_only(given())


def test_use_keeps_symlink(users: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(users)
    kubeconfig.use(link, kubeconfig.sky_local_only(given()))
    assert link.is_symlink()
    assert read(users)["current-context"] == "sky-local"


@pytest.mark.parametrize(
    "text", ["contexts: [", "- a\n", "text", "contexts: 7\n", "users: [me]\n", "\x00"]
)
def test_use_damaged_kubeconfig_is_unchanged(users: Path, text: str) -> None:
    users.write_text(text)
    with pytest.raises(UserError, match="is not a kubeconfig; it was not changed"):
        kubeconfig.use(users, kubeconfig.sky_local_only(given()))
    assert users.read_text() == text
    assert list(users.parent.iterdir()) == [users]


def test_use_waits_for_lock_of_kubectl(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = users.with_name("config.lock")
    lock.touch()
    before = users.read_text()
    texts: list[str] = []

    def unlock() -> None:
        texts.append(users.read_text())
        lock.unlink()

    threading.Timer(0.3, unlock).start()
    kubeconfig.use(users, kubeconfig.sky_local_only(given()))
    assert texts == [before] != [users.read_text()]
    lock.touch()
    monkeypatch.setattr(kubeconfig, "_LOCK_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(SkyError, match=f"is changing {users}; if none is running, remove {lock}"):
        kubeconfig.use(users, kubeconfig.sky_local_only(given()))
    assert lock.exists()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("", "HOME/.kube/config"),
        ("/a/b", "/a/b"),
        (os.pathsep.join(["", "/a", "/b"]), "/a"),
        ("~/mine", "HOME/mine"),
    ],
)
def test_user_path_is_first_entry_of_kubeconfig_variable(value: str, path: str) -> None:
    expected = Path(path.replace("HOME", str(Path.home())))
    assert kubeconfig.user_path({"KUBECONFIG": value}) == expected
