"""The dashboard's pages with work in them: accessible in all sizes and colours, and in pictures.

`UPDATE_GOLDEN=1` makes the pictures of docs/dashboard.md, `PICTURES=FOLDER` all of them.
"""

import os
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="make test-all installs it")

from playwright.sync_api import Locator, Page, expect

from tests.e2e import test_dashboard
from tests.e2e.command import ROOT, Command
from tests.e2e.test_dashboard import axe, open_page, submit, write_file
from tests.polling import eventually

pytestmark = [pytest.mark.practice_only, pytest.mark.tools]
browser = test_dashboard.browser
link = test_dashboard.link
page = test_dashboard.page

NAMESPACE = "vision"
TASKS = (
    "name: eval\nresources: {cpus: 0.1, labels: {team: maps}}\nrun: echo accuracy 0.93\n",
    "name: finetune\nresources: {cpus: 1000, labels: {team: maps}}\nrun: python tune.py\n",
    "name: train\nnum_nodes: 2\nresources: {cpus: 0.1, accelerators: A100:2,"
    " labels: {team: roads}}\nrun: sleep 600\n",
)
SERVICE = """\
name: web
resources: {cpus: 0.1, ports: 8645}
service: {readiness_probe: /, replicas: 1}
run: python3 -m http.server 8645
"""
HANG = """\
name: pretrain
num_nodes: 3
resources: {cpus: 100m, memory: 64Mi}
run: |
  cat > train.py <<'END'
  import faulthandler, os, signal, time
  faulthandler.register(signal.SIGUSR1)

  def all_reduce():
      time.sleep(600)

  def load_batch():
      time.sleep(600)

  for step in range(1, 25):
      time.sleep(0.25)
      print(f"step {step}: loss={2.5 / step:.3f}", flush=True)
  load_batch() if os.environ["SKYPILOT_NODE_RANK"] == "1" else all_reduce()
  END
  exec python3 train.py
"""
HEIGHTS = {1920: 1080, 1280: 800, 390: 844}  # of screens, by their width
IN_DOCS = {
    "tasks-1280-light",
    "update-1280-light",
    "quotas-1280-dark",
    "tasks-390-light",
    "hang-1280-light",
    "goodput-1280-light",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1920, 1280, 390])
def test_pages_with_work_are_accessible_and_fit_the_width(
    page: Page, sky: Command, kubectl: Command, scheme: str, width: int
) -> None:
    kubectl("create", "namespace", NAMESPACE)
    kubectl("create", "quota", "team", "--hard=requests.nvidia.com/gpu=8,pods=20", "-n", NAMESPACE)
    kubectl("config", "set-context", "--current", "--namespace", NAMESPACE)
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    *_, train = [submit(sky, text) for text in TASKS]
    assert sky("serve", "up", "-", stdin=SERVICE).returncode == 0

    def look(name: str, sign: Locator) -> None:
        expect(sign).to_be_visible()
        sign.scroll_into_view_if_needed()
        assert axe(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        picture(page, f"{name}-{width}-{scheme}")

    open_page(page, f"/tasks?namespace={NAMESPACE}&filter=team!=roads")
    page.get_by_label("Select all tasks shown").check()
    look("tasks", page.get_by_role("button", name="Stop and delete"))
    open_page(page, f"/tasks/{train}?namespace={NAMESPACE}")
    look("task", page.get_by_text("no problem seen"))
    open_page(page, "/services")
    look("services", page.get_by_role("article", name="web"))
    page.get_by_role("link", name="Update web").click()
    write_file(page, SERVICE.replace("python3", "exec python3"))
    look("update", page.get_by_text("The file is valid"))
    open_page(page, "/cluster")
    expect(page.get_by_role("meter", name="requests.nvidia.com/gpu: ")).to_be_attached()
    look("quotas", page.get_by_role("group", name="Table of events"))
    assert sky("stop", "--all", "--yes").returncode == 0
    assert sky("serve", "down", "web").returncode == 0
    kubectl("delete", "namespace", NAMESPACE, "--wait=true")


def test_page_of_a_task_that_hangs_names_the_rank_and_the_lost_time(
    page: Page, sky: Command
) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")
    task = submit(sky, HANG)
    eventually(lambda: "rank 1" in sky("doctor", task).stdout, 90)
    open_page(page, f"/tasks/{task}")
    expect(page.get_by_text("load_batch (train.py").first).to_be_visible()
    picture(page, "hang-1280-light")

    card = page.get_by_role("region", name="Goodput")
    card.get_by_role("button", name="Read the log").click()
    expect(card.get_by_role("rowheader", name="stalls")).to_be_visible()
    card.scroll_into_view_if_needed()
    picture(page, "goodput-1280-light")


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")
    if os.environ.get("UPDATE_GOLDEN") and name in IN_DOCS:
        page.screenshot(path=ROOT / "docs" / "images" / f"dashboard-{name}.png")
