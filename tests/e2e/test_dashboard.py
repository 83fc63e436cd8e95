"""The dashboard in a real browser: Debian's Chromium."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Literal

import pytest
import yaml

pytest.importorskip("playwright", reason="make test-all installs it")

from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

from server_tests.rest.test_usage import Prometheus
from tests.cluster.packages import require
from tests.cluster.target import Cluster, selected
from tests.contract.proxies import CuttingProxy
from tests.e2e.command import Command
from tests.e2e.support import write_settings
from tests.polling import eventually
from tests.ports import free_port

pytestmark = [pytest.mark.practice_only, pytest.mark.tools]

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
SERIOUS = ("serious", "critical")
RING = """\
name: ring
num_nodes: 3
resources: {cpus: 0.1}
run: |
  echo "rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
  echo '<img src=x onerror=alert(1)>'
"""
UNSCHEDULABLE = "name: finetune\nresources: {cpus: 1000}\nrun: python train.py\n"
ENDLESS = "name: endless\nresources: {cpus: 0.1}\nrun: sleep 600\n"
LOGGED = """\
name: logged
resources: {cpus: 0.1}
volumes: {/data: logs}
config: {kubectl_sky: {logs: /data/runs}}
run: exit 3
"""
PIPELINE = """\
name: sums
---
name: first
resources: {cpus: 0.1}
run: sleep 2
---
name: second
resources: {cpus: 0.1}
run: echo 2
"""
LINES = 100_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require("chromium")
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work for root.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        yield browser
        browser.close()


@pytest.fixture
def link(sky: Command) -> str:
    return start_dashboard(sky)


def start_dashboard(sky: Command, *flags: str) -> str:
    """Start a dashboard that runs until the test ends; return its one-time link."""
    process = sky.start("dashboard", "--no-browser", *flags)
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture
def page(browser: Browser, link: str) -> Iterator[Page]:
    with logged_in(browser, link) as page:
        yield page


@contextmanager
def logged_in(browser: Browser, link: str) -> Iterator[Page]:
    """Open a page of a user who is logged in; it fails the test for an error in the console."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if is_error(line) else None)
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    page.goto(link)
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    assert "code=" not in page.url
    yield page
    page.close()
    assert not errors


def is_error(line: ConsoleMessage) -> bool:
    """Report errors of the page, not of requests: a cluster may lack metrics or queues."""
    return line.type == "error" and not line.text.startswith("Failed to load resource")


def submit(sky: Command, text: str) -> str:
    """Submit a task and return its id."""
    done = sky("submit", "--detach", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    match = re.search(r"task/(\w+)", done.stdout)
    assert match
    return match[1]


def open_page(page: Page, path: str) -> None:
    page.evaluate("path => { location.hash = path }", path)


def write_file(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def close_dialog(page: Page) -> None:
    """Wait for the dialog, and close it with Escape."""
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_page_is_stale_while_the_api_server_is_away(
    browser: Browser, sky: Command, cluster: Cluster, tmp_path: Path
) -> None:
    server = selected(yaml.safe_load(cluster.kubeconfig.read_text()))[0]["server"]
    proxy = CuttingProxy(server)
    text = Path(sky.environment["KUBECONFIG"]).read_text()
    (tmp_path / "proxied").write_text(text.replace(server, proxy.url))
    environment = {**sky.environment, "KUBECONFIG": str(tmp_path / "proxied")}
    live = ".heading .live"

    with logged_in(browser, start_dashboard(replace(sky, environment=environment))) as page:
        expect(page.locator(live)).to_have_text("live")
        task_id = submit(sky, ENDLESS)
        for path in ("tasks", f"tasks/{task_id}", f"tasks/{task_id}/logs"):
            open_page(page, path)
            expect(page.locator(live)).to_have_text("live")
            proxy.refusing = True
            proxy.cut()
            expect(page.locator(live)).to_contain_text("stale since")
            proxy.refusing = False
            expect(page.locator(live)).to_have_text("live")
        assert sky("stop", task_id).returncode == 0
        open_page(page, "tasks")
        expect(page.get_by_text(task_id)).to_have_count(0)

    proxy.close()


def test_list_that_is_forbidden_is_disconnected(browser: Browser, sky: Command) -> None:
    with logged_in(browser, start_dashboard(sky, "--context=alice")) as page:
        expect(page.locator(".heading .live")).to_have_text("disconnected")
        expect(page.get_by_text("alice@example.com may not watch")).to_be_visible()


def test_browser_submits_a_task_reads_its_logs_and_stops_it(page: Page, sky: Command) -> None:
    page.get_by_role("link", name="Submit a task").first.click()
    write_file(page, RING)
    expect(page.get_by_text("The file is valid")).to_be_visible()
    page.get_by_role("button", name="Preview manifests").click()
    expect(page.get_by_role("group", name="Manifests in YAML")).to_contain_text("kind: Job")
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("heading", name="ring", exact=True)).to_be_visible()
    expect(page.locator(".heading .badge")).to_have_text("completed")
    expect(page.locator(".segment.completed")).to_have_attribute("style", "width: 100%;")
    expect(page.get_by_text("no problem seen")).to_be_visible()
    expect(page.get_by_role("group", name="Table of events")).to_contain_text("Started")

    page.get_by_role("link", name="node-1").click()
    expect(page.get_by_role("log")).to_contain_text("rank 1 of 3")
    expect(page.get_by_role("log")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.get_by_role("log")).not_to_contain_text("rank 2 of 3")
    page.get_by_label("Node").select_option("")
    page.get_by_label("Search in the logs").fill("RANK 2")
    expect(page.locator("mark")).to_have_text("rank 2")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert "node-2 | rank 2 of 3" in download.value.path().read_text()

    page.get_by_role("link", name="ring").click()
    assert [task["name"] for task in sky.json("list")["tasks"]] == ["ring"]
    delete = page.get_by_role("button", name="Delete", exact=True)  # nothing runs any more
    delete.click()
    close_dialog(page)
    delete.click()
    page.get_by_role("button", name="Delete task").click()
    expect(page.get_by_text("No tasks")).to_be_visible()
    assert sky.json("list")["tasks"] == []


def test_submit_again_fills_the_editor_with_the_text_of_the_task(page: Page) -> None:
    page.get_by_role("link", name="Submit a task").first.click()
    write_file(page, ENDLESS)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="endless", exact=True)).to_be_visible()
    page.get_by_role("link", name="Submit a task").first.click()
    write_file(page, PIPELINE)
    page.go_back()
    page.get_by_role("link", name="Submit again").click()
    expect(page.locator(".cm-content")).to_contain_text("name: endless")
    page.reload()  # the text is the cluster's now
    expect(page.locator(".cm-content")).to_contain_text("name: endless")
    page.go_back()
    page.get_by_role("heading", name="Task file").click()
    expect(page.get_by_role("group", name="Task file in YAML")).to_contain_text("name: endless")


def test_session_is_in_no_cookie_and_shared_by_tabs_until_logout(page: Page) -> None:
    assert page.context.cookies() == []
    with page.context.expect_page() as popup:
        page.get_by_role("link", name="Volumes").click(modifiers=["Control"])
    expect(popup.value.get_by_role("heading", name="Volumes")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    popup.value.close()
    page.get_by_role("button", name="Log out").click()
    page.reload()
    expect(page.get_by_role("heading", name="Log in to kubectl sky")).to_be_visible()


def test_page_goes_on_after_a_restart_of_a_server_with_a_key(
    browser: Browser, sky: Command, cluster: Cluster
) -> None:
    environment = {**sky.environment, "KUBECTL_SKY_SESSION_KEYS": "A" * 43 + "="}
    sky = replace(sky, environment=environment)
    port = str(free_port())

    def start() -> subprocess.Popen[str]:
        process = sky.start("api", "--port", port)
        assert process.stderr and "Serving" in process.stderr.readline()
        return process

    try:
        server = start()
        page = browser.new_page()
        expect.set_options(timeout=60_000)
        page.goto(f"http://127.0.0.1:{port}/ui/")
        page.get_by_label("Bearer token").fill(cluster.token())
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(".heading .live")).to_have_text("live")
        server.terminate()
        expect(page.locator(".heading .live")).to_contain_text("stale since")
        server.wait()
        start()
        expect(page.locator(".heading .live")).to_have_text("live")
        open_page(page, "/volumes")
        expect(page.get_by_role("heading", name="Volumes")).to_be_visible()
        page.close()
    finally:
        sky.end()


def test_pages_go_on_at_once_when_one_of_two_replicas_is_killed(
    browser: Browser, sky: Command, cluster: Cluster
) -> None:
    environment = {**sky.environment, "KUBECTL_SKY_SESSION_KEYS": "A" * 43 + "="}
    replicas = replace(sky, environment=environment)

    def start() -> tuple[subprocess.Popen[str], str]:
        port = str(free_port())
        process = replicas.start("api", "--port", port)
        assert process.stderr and "Serving" in process.stderr.readline()
        return process, f"http://127.0.0.1:{port}"

    replica, url = start()
    _, other = start()
    service = CuttingProxy(url)
    context = browser.new_context()
    try:
        task = submit(sky, ENDLESS)
        page = context.new_page()
        page.goto(f"{service.url.replace('https', 'http')}/ui/")
        page.get_by_label("Bearer token").fill(cluster.token())
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("All users").check()
        expect(page.get_by_role("row").filter(has_text=task)).to_be_visible()
        task_page = context.new_page()
        task_page.goto(page.url.partition("#")[0] + f"#/tasks/{task}?all_users=true")
        expect(task_page.locator(".heading .badge")).to_have_text("running")

        replica.kill()
        service.lead_to(other)
        new = submit(sky, UNSCHEDULABLE)
        expect(page.get_by_role("row").filter(has_text=new)).to_be_visible(timeout=10_000)
        assert sky("stop", task).returncode == 0
        expect(task_page.get_by_role("alert")).to_contain_text("not found", timeout=10_000)
    finally:
        context.close()
        service.close()
        replicas.end()


def test_task_list_shows_changes_and_filters_without_a_reload(page: Page, sky: Command) -> None:
    expect(page.get_by_text("No tasks")).to_be_visible()
    task = submit(sky, ENDLESS)
    row = page.get_by_role("row").filter(has_text=task)
    expect(row.locator(".badge")).to_have_text("running")
    page.get_by_role("button", name="failed").click()
    expect(page.get_by_text("No task matches the filter")).to_be_visible()
    page.get_by_role("button", name="failed").click()
    field = page.get_by_role("searchbox")
    field.click()
    page.keyboard.type("endles", delay=50)  # the field keeps the focus
    expect(field).to_have_value("endles")
    expect(field).to_be_focused()

    row.get_by_role("link", name="endless", exact=True).click()
    expect(page.locator(".heading .badge")).to_have_text("running")
    page.go_back()
    expect(field).to_have_value("endles")
    field.fill("")
    row.get_by_role("button", name=f"Stop endless {task}").click()
    page.get_by_role("button", name="Stop task").click()
    expect(page.get_by_text("No tasks")).to_be_visible()


def test_task_list_sorts_selects_several_and_submits_them_again(page: Page, sky: Command) -> None:
    for name in ("bee", "ant"):
        submit(sky, ENDLESS.replace("endless", name))
    names = page.locator("tbody .task-name")
    expect(names).to_have_count(2)
    page.get_by_role("button", name="Task", exact=True).click()
    expect(names).to_have_text(["ant", "bee"])
    page.get_by_role("button", name="Task", exact=True).click()
    expect(names).to_have_text(["bee", "ant"])
    page.reload()  # the order is in the address
    expect(names).to_have_text(["bee", "ant"])
    page.get_by_label("Changed in").select_option("last hour")
    expect(names).to_have_count(2)

    page.get_by_label("Select all tasks shown").check()
    selected = page.get_by_role("group", name="Selected tasks")
    selected.get_by_role("button", name="Submit again").click()
    expect(names).to_have_text(["bee", "bee", "ant", "ant"])
    page.get_by_label("Select all tasks shown").check()
    selected.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop 4 tasks").click()
    expect(page.get_by_text("No task matches the filter")).to_be_visible()


def test_deleted_tasks_are_shown_with_the_way_to_their_logs(
    page: Page, sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    page.get_by_role("button", name="deleted").click()
    expect(page.get_by_text("history: 1000")).to_be_visible()
    page.get_by_role("link", name="Show all tasks").click()
    write_settings(tmp_path, "history: 5\n")
    sky.start("controllers", "run", "--only", "tasks")
    assert sky("volumes", "create", "logs", "1Gi").returncode == 0

    task = submit(sky, LOGGED)
    history = ("get", "configmap", "kubectl-sky-history", "-o", "name", "--ignore-not-found")
    eventually(lambda: kubectl(*history).stdout)
    row = page.get_by_role("row").filter(has_text=task)
    row.get_by_role("button", name=f"Delete logged {task}").click()
    page.get_by_role("button", name="Delete task").click()
    expect(page.get_by_text("No tasks")).to_be_visible()
    page.get_by_role("button", name="deleted").click()
    expect(row.locator(".badge")).to_have_text("failed")
    expect(row).to_contain_text("node-0: exit code 3")
    expect(row).to_contain_text(f"kubectl sky logs {task} -n ")
    expect(row.get_by_role("link")).to_have_count(0)
    assert axe(page) == []

    page.get_by_role("searchbox").fill("other")
    expect(page.get_by_text("No task matches the filter")).to_be_visible()


def test_task_list_filters_by_label_and_gpu_in_its_address(page: Page, sky: Command) -> None:
    for name, team in (("bee", "vision"), ("ant", "text")):
        submit(
            sky,
            f"name: {name}\nresources: {{cpus: 0.1, labels: {{team: {team}}}}}\nrun: sleep 600\n",
        )

    submit(sky, "name: cat\nresources: {cpus: 0.1, accelerators: A100:2}\nrun: sleep 600\n")
    open_page(page, "/tasks?sort=name")  # those of the same second have no order by age
    names = page.locator("tbody .task-name")
    expect(names).to_have_count(3)

    for text, shown in {
        "team=vision": ["bee"],
        "a100": ["cat"],
        "team!=vision": ["ant", "cat"],
    }.items():
        page.get_by_role("searchbox").fill(text)
        expect(names).to_have_text(shown)

    page.reload()
    expect(names).to_have_text(["ant", "cat"])
    names.first.click()
    expect(page.get_by_label("Summary")).to_contain_text("team=text")


def test_keys_open_pages_and_submit_the_editor(page: Page) -> None:
    expect(page.get_by_text("No tasks")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Ctrl+Enter")
    close_dialog(page)
    page.keyboard.press("n")
    write_file(page, ENDLESS)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="endless", exact=True)).to_be_visible()


def test_search_of_a_log_is_in_its_address(page: Page, sky: Command) -> None:
    task = submit(sky, RING)
    assert sky("wait", task).returncode == 0
    open_page(page, f"/tasks/{task}/logs?rank=1")
    page.get_by_label("Search in the logs").fill("rank 1")
    expect(page.locator("mark")).to_have_text("rank 1")
    page.reload()
    expect(page.locator("mark")).to_have_text("rank 1")


def test_doctor_explains_a_task_that_cannot_be_scheduled(page: Page, sky: Command) -> None:
    task = submit(sky, UNSCHEDULABLE)
    page.get_by_role("link", name="finetune", exact=True).click()
    expect(page.get_by_role("heading", name="Doctor")).to_be_visible()
    finding = page.locator(".finding")
    expect(finding).to_contain_text("cpu")
    expect(finding).to_contain_text("Next:")
    expect(page.locator(".stages .problem")).to_contain_text("scheduling")
    (stated,) = {entry["what"] for entry in sky.json("doctor", task)["findings"]}
    expect(finding).to_contain_text(stated)


def test_editor_completes_and_reports_problems_with_their_lines(page: Page) -> None:
    open_page(page, "/submit")
    write_file(page, "name: x\nresources:\n  acelerators: A100:1\nrun: echo\n")
    expect(page.get_by_text("1 problem")).to_be_visible()
    problem = page.get_by_role("button", name="line 3")
    expect(problem).to_contain_text('unknown field; did you mean "accelerators"?')
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    expect(page.locator(".cm-lintRange-error")).to_have_text("acelerators")
    problem.click()
    expect(page.locator(".cm-activeLine")).to_have_text("  acelerators: A100:1")

    write_file(page, "run: echo\nresources:\n")
    page.keyboard.type("  acc")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.first).to_contain_text("accelerators")
    page.wait_for_timeout(200)  # the editor ignores keys just after the list has opened
    page.keyboard.press("Enter")
    expect(page.locator(".cm-activeLine")).to_have_text("  accelerators: ")


def test_log_of_100000_lines_keeps_the_page_small(page: Page, sky: Command) -> None:
    task = submit(sky, f"name: long\nresources: {{cpus: 0.1}}\nrun: seq {LINES}\n")
    assert sky("wait", task).returncode == 0

    open_page(page, f"/tasks/{task}/logs")
    expect(page.get_by_text(f"{LINES:,} lines")).to_be_visible(timeout=120_000)
    log = page.get_by_role("log")
    expect(log).to_contain_text(str(LINES))
    added = page.evaluate(
        """async () => {
            const pane = document.querySelector('.log-pane');
            const frame = () => new Promise(requestAnimationFrame);
            let added = 0;
            new MutationObserver((changes) => {
                for (const { addedNodes } of changes) added += addedNodes.length;
            }).observe(pane, { childList: true, subtree: true });
            for (let step = 1; step <= 20; step += 1) {
                pane.scrollTop = pane.scrollHeight * step / 40;
                await frame();
                await frame();
            }
            return added;
        }"""
    )
    expect(log).to_contain_text(str(LINES // 2))
    rows = page.locator(".log-line").count()
    assert rows < 200
    assert added <= 20 * 2 * rows  # work of a jump is that of the rows in the window


def test_login_with_wrong_token_shows_the_error(browser: Browser, link: str) -> None:
    page = browser.new_page()
    page.goto(link.partition("?")[0])
    page.get_by_label("Bearer token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible(timeout=60_000)
    assert axe(page) == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_pages_are_accessible_and_fit_the_width(
    page: Page, sky: Command, scheme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    task = submit(sky, UNSCHEDULABLE)
    sky("volumes", "create", "data", "1Gi")
    quota = {
        "namespace": "a",
        "quota": "team",
        "resource": "requests.memory",
        "used": "512Mi",
        "hard": "1Gi",
    }
    page.route(re.compile("/quotas"), lambda route: route.fulfill(json={"quotas": [quota]}))
    pages = {
        "/tasks": page.get_by_role("table"),
        f"/tasks/{task}": page.locator(".finding"),
        f"/tasks/{task}/logs": page.get_by_text("0 lines"),
        "/services": page.get_by_text("No services"),
        "/volumes": page.get_by_role("table"),
        "/cluster": page.get_by_role("group", name="Table of events"),
        "/submit": page.get_by_text("forecast: starts now on"),
        "/serve": page.get_by_text("The file is valid"),
    }

    for path, sign in pages.items():
        open_page(page, path)
        expect(sign).to_be_visible()
        assert axe(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path

    if width < 760:
        room = "item => item.clientWidth - Math.min(item.scrollWidth, 200)"  # of long names
        assert page.locator(".who").evaluate(room) >= 0
        assert page.locator(".namespace").evaluate(room) >= 0

    open_page(page, "/cluster")
    expect(page.get_by_role("meter", name="requests.memory: ")).to_be_visible()


def test_dark_switch_is_remembered_until_it_is_the_choice_of_the_system(page: Page) -> None:
    def color() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    light = color()
    switch = page.get_by_role("switch", name="Dark")
    switch.click()
    expect(switch).to_be_checked()
    assert color() != light
    page.reload()
    expect(switch).to_be_checked()
    switch.click()
    assert color() == light
    page.emulate_media(color_scheme="dark")
    expect(switch).to_be_checked()


def test_gpus_of_a_task_are_in_the_list_and_its_hours_in_bars(page: Page, sky: Command) -> None:
    gpus = "name: gpus\nresources: {cpus: 0.1, accelerators: A100:2}\nrun: sleep 600\n"
    task = submit(sky, gpus)
    row = page.get_by_role("row").filter(has_text=task)
    expect(row).to_contain_text("A100:2, 0.1 CPU")
    expect(row).to_contain_text("python:3.13-slim")
    open_page(page, "/cluster")
    expect(page.get_by_role("meter", name=re.compile(r"A100: 0\.\d GPU-hours"))).to_be_attached()


def test_usage_without_metrics_api_is_asked_for_once(page: Page, sky: Command) -> None:
    task = submit(sky, ENDLESS)
    asked = []
    reason = "the cluster has no metrics API"

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"nodes": [], "reason": reason})

    page.route(re.compile(rf"/tasks/{task}/usage"), answer)
    page.clock.install()
    open_page(page, f"/tasks/{task}")
    expect(page.get_by_text(f"No measurements: {reason}")).to_be_visible()
    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    assert len(asked) == 1


class Measuring(Prometheus):
    """A stand-in that measures the same all the time."""

    def measure(self, form: dict[str, str]) -> bytes:
        pods = re.search(r'pod=~"([^"]*)"', form["query"])
        assert pods
        pod = pods[1].replace("\\", "")
        times = range(int(form["start"]), int(form["end"]) + 1, int(form["step"]))
        values = {"cpus": "1.5", "gpu_percent": "73", "gpu_memory_bytes": str(40 << 30)}
        self.answer(
            *(
                ({"pod": pod, "measure": name}, [[time, value] for time in times])
                for name, value in values.items()
            )
        )
        return self.body


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_usage_shows_what_prometheus_knows_else_why_not(
    page: Page, sky: Command, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    task = submit(sky, ENDLESS)
    assert sky("wait", task, "--for", "running").returncode == 0

    with Measuring() as server:
        server.find = server.measure
        Thread(target=server.serve_forever, daemon=True).start()
        assert sky("config", "set", "prometheus", server.url).returncode == 0
        open_page(page, f"/tasks/{task}")
        card = page.get_by_role("region", name="Usage")
        expect(card.get_by_role("img", name="GPU use over time. Now: node-0 73%")).to_be_visible()
        expect(card.get_by_role("img", name="GPU memory over time. Now: node-0 40")).to_be_visible()
        expect(card.locator("canvas")).to_have_count(3)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert axe(page) == []
        server.status = 503
        card.get_by_role("combobox", name="Time").select_option("last hour")
        expect(card.get_by_text("Prometheus: HTTP 503")).to_be_visible()
        server.shutdown()
    assert sky("config", "unset", "prometheus").returncode == 0

    page.reload()
    expect(card.get_by_text("prometheus: URL")).to_be_visible()


def test_timeline_shows_an_unknown_time_as_unknown(page: Page, sky: Command) -> None:
    def phase(name: str, start: int, end: int) -> dict[str, str]:
        return {
            "phase": name,
            "start": f"2026-01-01T00:{start}:00Z",
            "end": f"2026-01-01T00:{end}:00Z",
        }

    task = submit(sky, ENDLESS)
    phases = [phase("starting", 10, 20), phase("unknown", 20, 40)]
    node = {"name": "node-0", "phases": phases, "unknown": ["pulling", "run"]}
    times = {"now": "2026-01-01T00:50:00Z", "tasks": [{"name": "endless", "nodes": [node]}]}
    page.route(re.compile(rf"/tasks/{task}/timeline"), lambda route: route.fulfill(json=times))
    open_page(page, f"/tasks/{task}")
    bars = page.get_by_role("img", name="node-0: starting 10m, unknown 20m")
    expect(bars.locator("rect").last).to_have_attribute("fill", "url(#hatch)")
    expect(page.get_by_text("events expire: pulling, run")).to_be_visible()
    expect(page.locator(".marks text")).to_have_text(["0m", "10m", "20m", "30m"])


def test_goodput_is_read_when_it_is_asked_for(page: Page, sky: Command) -> None:
    steps = "run: |\n  for at in 1 2 3 4 5; do sleep 0.3; echo step $at; done\n"
    task = submit(sky, f"name: steps\n{steps}  sleep 600\n")
    eventually(lambda: "step 5" in sky("logs", task).stdout)
    open_page(page, f"/tasks/{task}")
    card = page.get_by_role("region", name="Goodput")

    card.get_by_role("button", name="Read the log").click()

    expect(card.get_by_role("rowheader", name="steps")).to_be_visible()
    assert axe(page) == []


def test_services_page_shows_why_a_replica_is_not_ready(page: Page, sky: Command) -> None:
    head = "name: web\nresources: {cpus: 0.1, ports: 8645}\nservice: {readiness_probe: /}\n"
    assert sky("serve", "up", "--detach", "-", stdin=f"{head}run: exit 3\n").returncode == 0
    open_page(page, "/services")
    service = page.get_by_role("article", name="web")
    expect(service).to_contain_text("0 of 1 replica ready")
    expect(service.locator(".finding")).to_contain_text("exit code 3")


def test_service_is_scaled_read_updated_and_deleted_on_its_page(page: Page, sky: Command) -> None:
    head = "name: web\nresources: {cpus: 0.1, ports: 8645}\nservice: {readiness_probe: /}\n"
    run = "run: echo serving; sleep 600\n"
    assert sky("serve", "up", "--detach", "-", stdin=f"{head}{run}").returncode == 0
    open_page(page, "/services")
    service = page.get_by_role("article", name="web")
    service.get_by_role("button", name="Scale web").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Replicas").fill("2")
    assert axe(page) == []
    dialog.get_by_role("button", name="Scale").click()
    expect(service).to_contain_text("of 2 replicas ready")

    service.get_by_role("link", name="Logs web").click()
    expect(page.locator(".log-line").first).to_contain_text("serving")
    assert axe(page) == []
    page.get_by_role("search").get_by_role("combobox").select_option("replica-0")
    expect(page).to_have_url(re.compile("services/web/logs.*rank=0"))
    expect(page.locator(".log-line")).to_have_count(1)
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link").click()

    service.get_by_role("link", name="Update web").click()
    expect(page.locator(".cm-content")).to_contain_text("echo serving")
    expect(page.get_by_text("The file is valid")).to_be_visible()
    assert axe(page) == []
    write_file(page, f"{head}run: exit 3\n")
    page.get_by_role("button", name="Update", exact=True).click()
    expect(service).to_contain_text("version 2 of")
    expect(service.locator(".finding")).to_contain_text("exit code 3")
    assert axe(page) == []

    service.get_by_role("button", name="Delete web").click()
    dialog.get_by_role("button", name="Delete service").click()
    expect(page.get_by_text("No services")).to_be_visible()


def axe(page: Page) -> list[str]:
    """Return the serious findings of axe-core."""
    page.evaluate(AXE)
    violations = page.evaluate("axe.run().then(result => result.violations)")
    return [
        f"{entry['id']}: {json.dumps([node['html'] for node in entry['nodes']])}"
        for entry in violations
        if entry["impact"] in SERIOUS
    ]


def test_pipeline_has_rows_and_a_page_that_resumes_its_stages(page: Page, sky: Command) -> None:
    page.get_by_role("link", name="Submit a task").first.click()
    write_file(page, PIPELINE)
    expect(page.get_by_text("The file is valid")).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("heading", name="sums", exact=True)).to_be_visible()
    expect(page.get_by_text("stage 2 is suspended")).to_be_visible()  # a note of the submit
    graph = page.get_by_role("group", name="Graph of the stages")
    expect(graph.get_by_role("link", name="2. second: pending")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("button", name="Resume second").click()
    expect(page.locator(".heading .badge")).to_have_text("completed")
    expect(page.get_by_role("img", name=re.compile("second: queued"))).to_be_visible()
    stage = graph.get_by_role("link", name="2. second: completed")
    stage.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="second", exact=True)).to_be_visible()
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link").click()
    row = page.get_by_role("row").filter(has_text="2 of 2 stages")
    expect(page.locator("tbody .task-name")).to_have_text(["sums", "sums/first", "sums/second"])
    row.get_by_role("link", name="Logs of pipeline sums").click()
    expect(page.locator(".log-line").first).to_be_visible()
    page.go_back()
    row.get_by_role("button", name="Delete pipeline sums").click()
    page.get_by_role("button", name="Delete pipeline", exact=True).click()
    expect(page.get_by_text("No tasks")).to_be_visible()


def test_page_of_an_unknown_task_has_a_heading(page: Page) -> None:
    page.evaluate("location.hash = '#/tasks/abcd2345'")
    expect(page.get_by_role("heading", name="Task abcd2345")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("not found")
    assert axe(page) == []


def test_namespace_of_a_link_or_of_the_header_is_that_of_every_page(
    page: Page, sky: Command, namespace: str
) -> None:
    name = f"{namespace[:50]}-other"
    assert sky("users", "add", "team", "--namespace", name).returncode == 0

    page.get_by_label("Namespace", exact=True).fill(name)
    page.get_by_label("Namespace", exact=True).press("Enter")
    expect(page.get_by_text("No tasks")).to_be_visible()
    page.get_by_role("link", name="Submit a task").first.click()
    write_file(page, RING)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator(".heading .badge")).to_have_text("completed")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Tasks").click()
    expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="ring")).to_be_visible()
    open_page(page, f"/tasks?namespace={namespace}")
    expect(page.get_by_label("Namespace", exact=True)).to_have_value(namespace)
    expect(page.get_by_text("No tasks")).to_be_visible()
