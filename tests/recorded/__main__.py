"""Record the objects on standard input for the installed version."""

import json
import sys

from kubectl_sky import __version__
from tests.recorded import FOLDER

RUNTIME = FOLDER.parents[1] / "runtime"


def main() -> None:
    """Write the objects without secrets and managed fields, and the scripts apart."""
    folder = FOLDER / __version__
    (folder / "runtime").mkdir(parents=True, exist_ok=True)
    scripts = {path.read_text(): path.name for path in RUNTIME.iterdir()}
    items = json.load(sys.stdin)["items"]
    kept = [item for item in items if item["metadata"].get("labels", {}).get("skypilot-task")]
    for item in kept:
        item["metadata"].pop("managedFields", None)
        data = item.get("data", {})
        for key, text in data.items():
            if item["kind"] == "Secret":
                data[key] = "cmVjb3JkZWQ="
            elif text in scripts:
                data[key] = f"<runtime/{scripts[text]}>"
                (folder / "runtime" / f"{scripts[text]}.txt").write_text(text)
    lines = ",\n".join(json.dumps(item) for item in kept)
    (folder / "objects.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
