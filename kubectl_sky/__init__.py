"""kubectl-sky: SkyPilot task YAMLs on any Kubernetes cluster, as plain manifests."""

__version__ = "0.1.0"
