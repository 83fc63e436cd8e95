"""The dashboard's files, and the sessions of browsers."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kubectl_sky.errors import UserError
from kubectl_sky_server.rest import identity
from kubectl_sky_server.rest.pages import STATIC
from server_tests.rest.conftest import ALICE, BOB, Client
from tests.cluster import cache, shell
from tests.fake_cluster import FakeCluster

WEB = Path(__file__).parent.parent.parent / "web"
KEYS = ("A" * 43 + "=", "/" * 42 + "8=")
BROWSER = {"Sec-Fetch-Site": "same-origin"}
MANIFEST = json.loads((STATIC / "manifest.json").read_text())


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, without npm's packages, tests and the manifest itself."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in names.items()
        if not name.startswith(("node_modules/", "tests/")) and name != "manifest.json"
    }


def login(client: TestClient, **credentials: str) -> str:
    """Log in as the page does, which sends the session with each request; return its id."""
    answer = client.post("/login", json=credentials, headers=BROWSER)
    assert answer.status_code == 200, answer.text
    client.headers[identity.SESSION_HEADER] = answer.json()["session"]
    return str(answer.json()["session"])


def test_bundle_is_built_from_current_sources() -> None:
    assert hashes(WEB) == MANIFEST["sources"], "run `make web`, and commit what it builds"


def test_bundle_is_not_edited_by_hand() -> None:
    assert hashes(STATIC) == MANIFEST["files"], "run `make web`, and commit what it builds"


@pytest.mark.tools
@pytest.mark.timeout(600)  # npm installs 150 MB
def test_sources_pass_types_linter_format_and_their_tests(tmp_path: Path) -> None:
    npm = shell.find("npm") or shell.absent("no Node, which has npm")
    environment = os.environ | {"HOME": str(cache.HOME)}  # npm's cache of this machine
    folder = tmp_path / "web"
    shutil.copytree(WEB, folder, ignore=shutil.ignore_patterns("node_modules"))
    for command in ("ci --no-fund --no-audit", "run check"):
        done = subprocess.run(
            [npm, *command.split()],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_lock_file_uses_default_registry_only() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    origins = {value.get("resolved", "").rpartition("/-/")[0] for value in packages.values()}
    assert all(not url or url.startswith("https://registry.npmjs.org/") for url in origins)


def test_sources_never_insert_text_as_html() -> None:
    sources = "".join(path.read_text() for path in (WEB / "src").iterdir())
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", sources)


def test_licences_name_every_package_in_bundle() -> None:
    text = (STATIC / "THIRD-PARTY.txt").read_text()
    dependencies = json.loads((WEB / "package.json").read_text())["dependencies"]
    assert not [name for name, version in dependencies.items() if f"{name} {version} (" not in text]


def test_page_has_strict_policy_and_is_not_cached(client: Client) -> None:
    answer = client().get("/ui/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers["Cache-Control"] == "no-cache"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "<script>" not in answer.text
    assert "style=" not in answer.text


def test_page_names_only_files_that_exist(client: Client) -> None:
    anyone = client()
    names = re.findall(r'(?:src|href)="([^"]+)"', anyone.get("/ui/").text)
    assert len(names) == 3
    assert [anyone.get(f"/ui/{name}").status_code for name in names] == [200, 200, 200]


def test_file_with_hash_is_cached_forever(client: Client) -> None:
    (name,) = (path.name for path in STATIC.glob("app-*.js"))
    answer = client().get(f"/ui/{name}")
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"].startswith("text/javascript")
    unchanged = client().get(f"/ui/{name}", headers={"If-None-Match": answer.headers["ETag"]})
    assert unchanged.status_code == 304


@pytest.mark.parametrize(("path", "status"), [("/", 303), ("/ui", 308)])
def test_root_and_path_without_slash_redirect_browser_to_dashboard(
    client: Client, path: str, status: int
) -> None:
    answer = client().get(path, headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["Location"]) == (status, "/ui/")


@pytest.mark.parametrize(
    "path",
    [
        "/ui/../pages.py",
        "/ui/%2e%2e/pages.py",
        "/ui/..%2fpages.py",
        "/ui/%2e%2e%2fpages.py",
        "/ui//etc/passwd",
        "/ui/%00",
        "/ui/app.js%00.html",
        "/ui/" + "a" * 5000,
        "/ui/%ff",
    ],
)
def test_other_files_are_not_served(client: Client, path: str) -> None:
    answer = client().get(path)
    assert answer.status_code in (401, 404, 405)
    assert "detail" in answer.json()


def test_login_returns_a_session_and_sets_no_cookie(client: Client) -> None:
    """Browsers send cookies to every port of a host, also to those of other users."""
    browser = client()
    answer = browser.post("/login", json={"token": f" {ALICE}\n"}, headers=BROWSER)
    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers
    session = answer.json()["session"]
    assert len(session) >= 32
    assert ALICE not in answer.text
    header = {identity.SESSION_HEADER: session}
    assert browser.get("/whoami", headers=header).json()["user"] == "alice"
    for name in ("kubectl-sky-session", identity.SESSION_HEADER):
        assert browser.get("/whoami", headers={"Cookie": f"{name}={session}"}).status_code == 401


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ((), (), 401),
        (KEYS[:1], KEYS[:1], 200),
        (KEYS[:1], KEYS[::-1], 200),
        (KEYS[:1], KEYS[1:], 401),
    ],
    ids=["no key", "same key", "rotated key", "other key"],
)
def test_session_is_accepted_by_servers_with_its_key_only(
    client: Client, first: tuple[str, ...], second: tuple[str, ...], status: int
) -> None:
    session = login(client(session_keys=first), token=ALICE)
    restarted = client({identity.SESSION_HEADER: session}, session_keys=second)
    assert restarted.get("/whoami").status_code == status


def test_session_is_refused_if_changed_or_spelled_otherwise(client: Client) -> None:
    browser = client()
    session = login(browser, token=ALICE)
    middle = "B" if session[60] == "A" else "A"
    for other in (
        session[:60] + middle + session[61:],
        f"{session}=",
        f"{session[:9]}!{session[9:]}",
    ):
        answer = browser.get("/whoami", headers={identity.SESSION_HEADER: other})
        assert answer.status_code == 401
    assert browser.get("/whoami").status_code == 200


def test_session_whose_token_has_expired_is_refused(client: Client, cluster: FakeCluster) -> None:
    session = login(client(session_keys=KEYS), token=ALICE)
    del cluster.tokens[ALICE]
    restarted = client({identity.SESSION_HEADER: session}, session_keys=KEYS)
    assert restarted.get("/whoami").status_code == 401


def test_invalid_session_key_is_refused_without_showing_it(client: Client) -> None:
    with pytest.raises(UserError, match="KUBECTL_SKY_SESSION_KEYS: invalid key") as error:
        client(session_keys=("hunter2",))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "body",
    [
        *({"token": token} for token in ("foreign", "", "a\r\nb: c")),
        *({"code": code} for code in ("guess", "", "None", "0")),
        {},
    ],
)
def test_login_with_wrong_credentials_is_refused(client: Client, body: dict[str, str]) -> None:
    answer = client().post("/login", json=body, headers=BROWSER)
    assert answer.status_code == 401
    assert "session" not in answer.json()


def test_login_of_more_than_16_kib_is_refused(client: Client) -> None:
    answer = client().post("/login", content=b" " * 17_000, headers=BROWSER)
    assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"token=alice-token", b"[]", b'{"token": 1}', b"\xff"])
def test_login_with_malformed_body_is_refused(client: Client, body: bytes) -> None:
    assert client().post("/login", content=body, headers=BROWSER).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://testserver:8001"},
    ],
)
@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_login_and_logout_from_other_sites_are_refused(
    client: Client, path: str, headers: dict[str, str]
) -> None:
    browser = client()
    login(browser, token=ALICE)
    answer = browser.post(path, json={"token": BOB}, headers=headers)
    assert answer.status_code == 403
    assert browser.get("/whoami").json()["user"] == "alice"


def test_login_with_one_time_code_works_once(client: Client) -> None:
    browser = client(login_code="one-time")
    login(browser, code="one-time")
    assert browser.get("/whoami").json()["user"] == "server"
    other = client()
    other.app = browser.app
    assert other.post("/login", json={"code": "one-time"}, headers=BROWSER).status_code == 401


def test_one_time_code_is_not_used_up_while_the_cluster_does_not_answer(
    client: Client, cluster: FakeCluster
) -> None:
    browser = client(login_code="one-time")
    for number in range(1, 7):  # more than the retries of a request
        cluster.before("create selfsubjectreviews", lambda: 503, number)
    assert browser.post("/login", json={"code": "one-time"}, headers=BROWSER).status_code >= 500
    login(browser, code="one-time")


def test_one_time_code_expires(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = client(login_code="one-time")
    monkeypatch.setattr(identity, "monotonic", lambda: 1e12)
    assert browser.post("/login", json={"code": "one-time"}, headers=BROWSER).status_code == 401


def test_logout_ends_session(client: Client) -> None:
    browser = client()
    login(browser, token=ALICE)
    assert browser.post("/logout", headers=BROWSER).status_code == 204
    assert browser.get("/whoami").status_code == 401


def test_second_login_ends_first_session(client: Client) -> None:
    browser = client()
    first = login(browser, token=ALICE)
    login(browser, token=BOB)
    assert browser.get("/whoami").json()["user"] == "bob"
    header = {identity.SESSION_HEADER: first}
    assert browser.get("/whoami", headers=header).status_code == 401


def test_session_expires(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = client()
    login(browser, token=ALICE)
    monkeypatch.setattr(identity, "_SESSION_SECONDS", -1)
    assert browser.get("/whoami").status_code == 401


def test_session_in_a_request_of_another_site_is_refused(client: Client) -> None:
    browser = client()
    login(browser, token=ALICE)
    assert browser.get("/tasks", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert browser.get("/tasks", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_schema_of_task_files_is_served_with_its_parts(client: Client) -> None:
    anyone = client()
    schema = anyone.get("/schemas/task.json")
    assert schema.json()["title"] == "A task for kubectl sky"
    for name in re.findall(r'"\$ref": "([a-z]+\.json)', schema.text):
        assert anyone.get(f"/schemas/{name}").status_code == 200
