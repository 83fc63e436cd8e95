"""The practice cluster: a small Kubernetes whose pods are processes of this machine."""

__version__ = "0.1.0"
