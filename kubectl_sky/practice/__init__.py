"""The practice cluster: a small Kubernetes whose pods are processes of this machine."""
