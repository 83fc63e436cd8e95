"""Behind the documented oauth2-proxy, an issuer, and an API server that accepts its tokens."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml

pytest.importorskip("playwright", reason="make test-all installs it")

from playwright.sync_api import Page, expect

from tests.cluster import programs
from tests.cluster.components import AUTHENTICATION, trusting
from tests.cluster.issuer import CLIENT, Issuer
from tests.cluster.marks import ON_REAL
from tests.cluster.rest_server import RestServer
from tests.cluster.target import Cluster
from tests.e2e.browser import isolated_browser
from tests.e2e.command import ROOT, Command
from tests.polling import eventually
from tests.ports import free_port

pytestmark = [
    pytest.mark.builds("oauth2-proxy"),
    ON_REAL,
]
ALICE = "alice@example.com"


@dataclass(frozen=True)
class Site:
    """What users see: the proxy, and the issuer that it sends browsers to."""

    url: str
    issuer: Issuer

    def get(self, path: str, token: str = "", **headers: str) -> tuple[int, str, str]:
        """Send a request of a program; return status, type and body."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()

    def user(self, token: str) -> str:
        """Return who has a token."""
        status, _, body = self.get("/whoami", token)
        assert status == 200, body
        return str(json.loads(body)["user"])


@contextmanager
def trusted(cluster: Cluster, issuer: Issuer) -> Iterator[None]:
    """Let the API server accept the tokens of an issuer."""
    file = cluster.kubeconfig.parent / AUTHENTICATION
    if not file.exists():
        pytest.skip(f"{cluster.driver}: its API server cannot be told to trust an issuer")
    before = file.read_text()
    ca = issuer.ca.read_text()
    trust = {"url": issuer.url, "audiences": [CLIENT], "certificateAuthority": ca}
    file.write_text(json.dumps(trusting(trust)))
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def proxy(upstream: str, issuer: Issuer, folder: Path) -> Iterator[str]:
    """Run oauth2-proxy with the documented arguments, on plain HTTP of the loopback address."""
    documents = yaml.safe_load_all(
        (ROOT / "packages/server/deploy/components/oidc/login.yaml").read_text()
    )
    deployment = next(item for item in documents if item["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    address = f"127.0.0.1:{free_port()}"
    own = {
        "--upstream": upstream,
        "--http-address": address,
        "--cookie-secure": "false",
        "--provider-ca-file": str(issuer.ca),
        "--oidc-issuer-url": issuer.url,
        "--redirect-url": f"http://{address}/oauth2/callback",
        "--client-id": CLIENT,
        "--client-secret": "secret",
        "--cookie-secret": "0123456789abcdef" * 2,
    }
    documented = [arg for arg in container["args"] if arg.partition("=")[0] not in own]
    program = programs.path("oauth2-proxy")
    log_file = folder / "oauth2-proxy.log"

    with log_file.open("wb") as log:
        command = [program, *documented, *map("=".join, own.items())]
        process = subprocess.Popen(command, stdout=log, stderr=log, env={})

    try:
        eventually(lambda: ready(f"http://{address}/ready", process), message=log_file.read_text)
        yield f"http://{address}"
        assert "WARNING" not in log_file.read_text()
    finally:
        process.terminate()
        process.wait(60)


def ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise RuntimeError("oauth2-proxy has ended")
    try:
        return bool(urllib.request.urlopen(url, timeout=10).status == 200)
    except OSError:
        return False


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    """Everything, once the API server accepts the issuer's tokens."""
    with (
        Issuer.start(tmp_path, ALICE) as issuer,
        trusted(cluster, issuer),
        RestServer.start(cluster, ["--behind-proxy"]) as server,
        proxy(server.url, issuer, tmp_path) as url,
    ):
        site = Site(url, issuer)
        eventually(lambda: site.get("/whoami", issuer.token())[0] == 200, 120)
        yield site


@pytest.fixture
def page(site: Site, tmp_path: Path) -> Iterator[Page]:
    """The browser of alice."""
    with isolated_browser((site.url, site.issuer.url), tmp_path) as browser:
        page = browser.new_context(ignore_https_errors=True).new_page()
        expect.set_options(timeout=60_000)
        page.context.set_default_timeout(60_000)
        yield page


def test_proxy_passes_tokens_of_programs_that_the_api_server_accepts(
    site: Site, sky: Command, kubectl: Command, cluster: Cluster, namespace: str
) -> None:
    assert kubectl("create", "serviceaccount", "ci").returncode == 0
    role = ["create", "rolebinding", "ci", "--clusterrole=view"]
    assert kubectl(*role, f"--serviceaccount={namespace}:ci").returncode == 0
    account = kubectl("create", "token", "ci").stdout.strip()
    assert site.user(account) == f"system:serviceaccount:{namespace}:ci"
    assert site.user(cluster.token("alice")) == cluster.users["alice"]  # no JWT at all
    assert site.user(site.issuer.token()) == ALICE
    environment = {**sky.environment, "KUBECTL_SKY_SERVER": site.url}
    plugin = Command((*sky.program,), environment, sky.folder)
    done = plugin("list", "--all-users", "-n", namespace, "--token", account)
    assert (done.returncode, "No tasks" in done.stdout + done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize("token", ["", "wrong"])
def test_proxy_without_a_good_token_answers_programs_in_json(site: Site, token: str) -> None:
    for path in ("/whoami", "/tasks", "/kubernetes/api/v1/namespaces"):
        status, kind, body = site.get(path, token)
        assert (status, kind.partition(";")[0].endswith("json")) == (401, True), body
        json.loads(body)


def test_log_out_of_the_page_ends_the_session_of_the_proxy(
    site: Site, page: Page, kubectl: Command, namespace: str
) -> None:
    view = ["create", "rolebinding", "view", "--clusterrole=view", f"--user={ALICE}"]
    assert kubectl(*view).returncode == 0
    tasks = f"/tasks?namespace={namespace}"  # the API server knows a binding a moment later
    eventually(lambda: site.get(tasks, site.issuer.token())[0] == 200)
    other = page.context.new_page()
    for each in (page, other):  # without an extra page, and to the place that was asked for
        each.goto(f"{site.url}/ui/#/tasks?namespace={namespace}")
        expect(each.get_by_text(f"Logged in as {ALICE}")).to_be_visible()
        expect(each.locator(".heading .live")).to_have_text("live")
    (cookie,) = page.context.cookies(site.url)
    mixed = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    assert site.get("/whoami", **mixed)[0] == 200
    assert site.get("/whoami", "other", **mixed)[0] == 401  # never one user with another's token
    assert site.get("/whoami", **mixed, **{"Sec-Fetch-Site": "cross-site"})[0] == 403

    page.get_by_role("button", name="Log out").click()
    for each in (page, other):
        expect(each.get_by_role("heading", name="Logged out of kubectl sky")).to_be_visible()
    assert page.context.cookies(site.url) == []
    assert page.request.get(f"{site.url}/whoami").status == 401
    page.get_by_role("link", name="Log in").click()
    expect(page.get_by_text(f"Logged in as {ALICE}")).to_be_visible()
