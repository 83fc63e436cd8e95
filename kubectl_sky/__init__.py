"""kubectl-sky: SkyPilot task YAMLs on any Kubernetes cluster, as plain manifests.

The names in `__all__` are the Python API, which docs/python-api.md describes. They follow semantic
versioning; everything else in this package may change in any release. Their types are in the stub
`__init__.pyi`.
"""

__version__ = "0.1.0"

# Imported when they are used: every command of the command line imports this module.
_MODULES = {
    "AcceleratorNode": "gpus.model",
    "Client": "api.client",
    "ClusterCheck": "tasks.doctor",
    "Danger": "spec.dangers",
    "Diagnosis": "observe.verdict",
    "LogLine": "api.logs",
    "LogLines": "api.logs",
    "Manifests": "api.task",
    "NodeStatus": "observe.nodes",
    "PipelineStatus": "observe.pipelines",
    "Port": "observe.endpoints",
    "Problem": "errors",
    "ServiceStatus": "serve.model",
    "State": "observe.nodes",
    "Submission": "api.client",
    "Table": "api.table",
    "Task": "api.task",
    "TaskStatus": "observe.status",
    "Usage": "gpus.hours",
    "Validation": "api.task",
    "VolumeStatus": "observe.volumes",
    "run_in_thread": "api.threads",
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 -- see above

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
