"""Communication with Kubernetes; no other package imports the Kubernetes client."""
