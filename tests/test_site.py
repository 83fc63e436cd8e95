"""The documentation builds as a site: no dead link, no page left out, every command described."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubectl_sky.cli.main import COMMANDS
from kubectl_sky.observe.rules import RULES
from kubectl_sky.spec import explain
from kubectl_sky.spec.danger_fields import POD_FIELDS, ROWS, DangerClass
from kubectl_sky.words import names
from kubectl_sky.words.documents import API_VERSION
from kubectl_sky.words.skypilot_options import OPTIONS
from kubectl_sky.words.skypilot_verbs import VERBS
from tests.test_documents import SCHEMAS

pytestmark = pytest.mark.tools  # mkdocs

ROOT = Path(__file__).parent.parent


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", folder)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


def test_site_has_page_of_each_file(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / page.stem / "index.html").is_file(), page


def test_site_describes_every_command(site: Path) -> None:
    text = (site / "reference" / "commands" / "index.html").read_text()
    for name in COMMANDS:
        assert f'id="{name}"' in text and f"Usage: kubectl sky {name}" in text, name


def test_site_links_to_files_outside_docs_in_repository(site: Path) -> None:
    text = (site / "index.html").read_text()
    url = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["repo_url"]
    assert f'href="{url}/tree/main/examples"' in text
    assert 'href="security/"' in text and 'src="images/terminal.svg"' in text


def test_site_loads_nothing_from_other_servers(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text and "fonts.googleapis" not in text, page


def test_site_has_a_sitemap_of_all_pages_and_no_other_files(site: Path) -> None:
    addresses = (site / "sitemap.xml").read_text().count("<loc>")
    assert addresses == len([*site.rglob("index.html")])
    assert not [*site.rglob("__pycache__"), *site.rglob("*.py")]


def test_site_page_of_reference_leads_to_the_others(site: Path) -> None:
    text = (site / "reference" / "index.html").read_text()
    for page in ("commands/", "task-fields/", "../json/"):
        assert f'href="{page}"' in text


def test_site_describes_every_field(site: Path) -> None:
    text = (site / "reference" / "task-fields" / "index.html").read_text()
    for field in explain.explain("").walk():
        assert f"<code>{'.'.join(field.path)}</code>" in text, field.name


def test_site_describes_every_finding(site: Path) -> None:
    text = (site / "reference" / "findings" / "index.html").read_text()
    assert [rule.name for rule in RULES if f"<code>{rule.name}</code>" not in text] == []


def test_site_describes_every_field_of_json(site: Path) -> None:
    text = (site / "reference" / "documents" / "index.html").read_text()
    for name, schema in SCHEMAS.items():
        if "enum" not in schema:
            _, _, section = text.partition(f'id="{name.lower()}"')
            fields = set(schema["properties"]) - {"apiVersion", "kind"}
            rows = re.findall(r"<tr>\s*<td><code>(.*?)</code>", section.partition("<h2")[0])
            assert set(rows) == fields, name


def test_site_describes_every_danger(site: Path) -> None:
    text = (site / "reference" / "dangers" / "index.html").read_text()
    fields = [name for fields in POD_FIELDS.values() for name in fields]
    fields += [name for row in ROWS for name in row.names]
    assert [name for name in fields if f"<code>{name}</code>" not in text] == []
    assert [name for name in DangerClass if f'id="{name}"' not in text] == []


def test_site_answers_every_command_of_skypilot(site: Path) -> None:
    text = (site / "reference" / "skypilot-commands" / "index.html").read_text()
    assert [verb for verb in VERBS if f"<code>sky {verb}</code>" not in text] == []
    options = [name for answers in OPTIONS.values() for name in answers]
    assert [name for name in options if f"<code>{name}</code>" not in text] == []


def test_labels_page_has_every_label_and_annotation() -> None:
    text = (ROOT / "docs" / "how-it-works.md").read_text()
    keys = {value for value in vars(names).values() if isinstance(value, str)}
    keys -= {API_VERSION}
    assert [key for key in keys if names.is_ours(key) and f"`{key}`" not in text] == []
