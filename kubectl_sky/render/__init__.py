"""Render the manifests of a plan; no other package imports jinja2."""
