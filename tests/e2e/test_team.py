"""From an empty cluster to a user's first task on the dashboard, by docs/administrators.md.

`pytest --log-cli-level INFO` shows how long each step takes.
"""

import logging
import os
import re
import shutil
import time
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="make test-all installs it")

from playwright.sync_api import Page, expect

from kubectl_sky.words.names import CONTROLLERS_NAMESPACE
from tests.cluster.marks import ON_REAL
from tests.cluster.target import Cluster
from tests.e2e import test_in_cluster
from tests.e2e.browser import isolated_browser
from tests.e2e.command import ROOT, Command
from tests.e2e.test_dashboard import write_file

pytestmark = [
    pytest.mark.timeout(400),  # it may make the image
    ON_REAL,
]
image = test_in_cluster.image
PAGE = (ROOT / "docs" / "administrators.md").read_text()
HOST = "sky.example.com"
DEPLOY = "packages/server/deploy"
LOG = logging.getLogger(__name__)
HELLO = """\
name: hello
num_nodes: 2
resources: {cpus: 0.5, memory: 0.25}
run: echo "hello from rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
"""


def documented() -> list[str]:
    """Return the commands of the platform team; without an identity provider, no proxy runs."""
    section = PAGE[PAGE.index("## The platform team") : PAGE.index("## The user")]
    text = section.partition("```sh\n")[2].partition("```")[0]
    commands = re.sub(r"\\\n\s*", "", text).splitlines()
    return [command for command in commands if "deployment/kubectl-sky-login" not in command]


def change_values(overlay: Path, image: str, port: str) -> None:
    """Do what the page leaves to the team; the cluster has no identity provider."""
    name, tag = image.rsplit(":", 1)
    file = overlay / "kustomization.yaml"
    text = re.sub(r"newName: .*", f"newName: {name}", file.read_text())
    text = re.sub(r"newTag: .*", f'newTag: "{tag}"', text)
    ports = overlay / "api-server-port.yaml"
    ports.write_text(ports.read_text().replace("16443", port))
    absent = re.compile("oidc|kubectl-sky-login")
    file.write_text("".join(x for x in text.splitlines(keepends=True) if not absent.search(x)))


def test_team_documented_commands_lead_to_first_task_of_user(
    environment: dict[str, str], kubectl: Command, image: str, cluster: Cluster, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / DEPLOY, tmp_path / DEPLOY)
    shell = Command(("sh", "-euc"), environment, tmp_path)
    jsonpath = "jsonpath={.ports[0].port}"
    port = kubectl("get", "endpointslice", "kubernetes", "-n", "default", "-o", jsonpath).stdout

    try:
        for command in documented():
            started = time.monotonic()
            done = shell(command)
            assert done.returncode == 0 and "arning" not in done.stderr, (command, done.stderr)
            LOG.info("%5.1f s: %s", time.monotonic() - started, command)
            if command.startswith("cp "):
                change_values(tmp_path / DEPLOY / "overlays" / "team", image, port)
            if "controllers status" in command:
                assert "2/2" in done.stdout
        in_namespace = Command(
            (*kubectl.program, "-n", CONTROLLERS_NAMESPACE), environment, tmp_path
        )
        with test_in_cluster.forwarded(in_namespace, environment) as url:
            rule = f"--host-resolver-rules=MAP {HOST}:80 {url.removeprefix('http://')}"
            with isolated_browser((url,), tmp_path, rule) as browser:
                page = browser.new_page(viewport={"width": 1280, "height": 760})
                first_task(page, cluster)
    finally:
        shell("kubectl delete -k packages/server/deploy/overlays/team --ignore-not-found")
        shell("kubectl sky users remove alice@example.com --yes --force")


def first_task(page: Page, cluster: Cluster) -> None:
    """Log in as Alice, who may do what `users add` allows, and run a task."""
    started = time.monotonic()

    def step(name: str) -> None:
        LOG.info("%5.1f s: %s", time.monotonic() - started, name)

    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    page.goto(f"http://{HOST}/")
    page.get_by_label("Bearer token").fill(cluster.token("alice"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("No tasks")).to_be_visible()
    step("logged in")
    page.get_by_role("link", name="Submit a task").first.click()
    write_file(page, HELLO)
    expect(page.get_by_text("The file is valid")).to_be_visible()
    picture(page, "submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="hello", exact=True)).to_be_visible()
    step("submitted")
    expect(page.locator(".heading .badge")).to_have_text("completed")
    step("completed")
    expect(page.get_by_text("sky-alice-example-com").first).to_be_visible()
    expect(page.get_by_text("no problem seen")).to_be_visible()
    picture(page, "task")
    page.get_by_role("link", name="node-1").click()
    expect(page.get_by_role("log")).to_contain_text("hello from rank 1 of 2")
    step("logs")
    page.get_by_role("link", name="Tasks").first.click()
    expect(page.get_by_role("link", name="hello", exact=True)).to_be_visible()


def picture(page: Page, name: str) -> None:
    """Take the picture of the documentation, with `UPDATE_GOLDEN=1`."""
    if os.environ.get("UPDATE_GOLDEN"):
        page.screenshot(path=ROOT / "docs" / "images" / f"team-{name}.png")
