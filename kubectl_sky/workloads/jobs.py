"""The default backend: one Job per node."""

from kubectl_sky.workloads.pernode import PerNode


class Jobs(PerNode):
    """It needs only Kubernetes."""

    name = "jobs"
    merit = "one Job per node"
