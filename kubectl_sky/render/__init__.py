"""The manifests of a plan; the only folder that imports jinja2."""
