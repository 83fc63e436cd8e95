"""Define what is read of the objects that run tasks and services.

A backend may read any of them: an annotation of the object names the backend. So all have the
fields of all kinds; those of other kinds are empty.
"""

from typing import Any

from msgspec import field

from kubectl_sky.words.objects import Condition, Fields, MaybeTime, Object
from kubectl_sky.words.pod_objects import PodTemplate, TaskContainer, TaskTemplateSpec


class ExitCodes(Fields, frozen=True, kw_only=True):
    """Exit codes of a rule."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class ConditionPattern(Fields, frozen=True, kw_only=True):
    """A condition of pods in a rule."""

    type: str


class FailureRule(Fields, frozen=True, kw_only=True):
    """What happens after a failure of a pod, or of a Job of a JobSet."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] | None = None


class PodFailurePolicy(Fields, frozen=True, kw_only=True):
    """The rules of a Job."""

    rules: tuple[FailureRule, ...] | None = None


class JobSpec(Fields, frozen=True, kw_only=True):
    """How a Job runs its pods."""

    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completions: int | None = None
    managed_by: str | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    suspend: bool | None = None
    template: PodTemplate = PodTemplate()
    ttl_seconds_after_finished: int | None = None


class JobTemplate(Fields, frozen=True, kw_only=True):
    """A Job of a JobSet."""

    spec: JobSpec = JobSpec()


class ReplicatedJob(Fields, frozen=True, kw_only=True):
    """Equal Jobs of a JobSet."""

    template: JobTemplate = JobTemplate()


class FailurePolicy(Fields, frozen=True, kw_only=True):
    """When a JobSet restarts."""

    max_restarts: int = 0
    rules: tuple[FailureRule, ...] | None = None


class Component(Fields, frozen=True, kw_only=True):
    """An object that an AppWrapper creates: whatever the user wrote."""

    template: Any = None


class Replica(Fields, frozen=True, kw_only=True):
    """The launcher or the workers of an MPIJob."""

    replicas: int | None = None
    template: PodTemplate = PodTemplate()


class RunPolicy(Fields, frozen=True, kw_only=True):
    """How an MPIJob runs."""

    backoff_limit: int | None = None
    suspend: bool | None = None


class TaskSpec(JobSpec, frozen=True, kw_only=True):
    """The spec of an object that runs a task."""

    components: tuple[Component, ...] = ()
    failure_policy: FailurePolicy = FailurePolicy()
    mpi_replica_specs: dict[str, Replica] = field(default_factory=dict)
    replicated_jobs: tuple[ReplicatedJob, ...] | None = None
    run_policy: RunPolicy = RunPolicy()


class ReplicaStatus(Fields, frozen=True, kw_only=True):
    """The pods of the launcher or the workers of an MPIJob."""

    active: int = 0
    failed: int = 0
    succeeded: int = 0


class ObjectStatus(Fields, frozen=True, kw_only=True):
    """The status of an object that runs a task or a service."""

    active: int = 0
    completed_indexes: str = ""
    conditions: tuple[Condition, ...] = ()
    failed: int = 0
    failed_indexes: str = ""
    observed_generation: int = 0
    phase: str = ""
    ready: int = 0
    ready_replicas: int = 0
    replica_statuses: dict[str, ReplicaStatus | None] = field(default_factory=dict)
    replicas: int = 0
    resetting_count: int = 0
    restarts: int = 0
    start_time: MaybeTime = None
    succeeded: int = 0
    updated_replicas: int = 0


class TaskObject(Object, frozen=True, kw_only=True):
    """An object that runs a task."""

    api_version: str = ""
    kind: str = ""
    spec: TaskSpec = TaskSpec()
    status: ObjectStatus = ObjectStatus()


class Job(TaskObject, frozen=True, kw_only=True):
    """A Job."""

    api_version: str = "batch/v1"
    kind: str = "Job"


class JobSet(TaskObject, frozen=True, kw_only=True):
    """A JobSet."""

    api_version: str = "jobset.x-k8s.io/v1alpha2"
    kind: str = "JobSet"


class AppWrapper(TaskObject, frozen=True, kw_only=True):
    """An AppWrapper."""

    api_version: str = "workload.codeflare.dev/v1beta2"
    kind: str = "AppWrapper"


class MPIJob(TaskObject, frozen=True, kw_only=True):
    """An MPIJob."""

    api_version: str = "kubeflow.org/v2beta1"
    kind: str = "MPIJob"


class ServiceContainer(TaskContainer, frozen=True, kw_only=True):
    """A container of a service."""

    args: tuple[str, ...] | None = None


class ServiceTemplateSpec(TaskTemplateSpec, frozen=True, kw_only=True):
    """What the pods of a service run."""

    containers: tuple[ServiceContainer, ...] = ()


class LabelledTemplate(PodTemplate, frozen=True, kw_only=True):
    """A pod template of a service."""

    spec: ServiceTemplateSpec = ServiceTemplateSpec()


class RayGroup(Fields, frozen=True, kw_only=True):
    """The head of a Ray cluster, or equal workers."""

    replicas: int | None = None
    template: LabelledTemplate = LabelledTemplate()


class RayConfig(Fields, frozen=True, kw_only=True):
    """A Ray cluster."""

    head_group_spec: RayGroup = RayGroup()
    worker_group_specs: tuple[RayGroup, ...] | None = None


class ServiceObjectSpec(TaskSpec, frozen=True, kw_only=True):
    """The spec of an object that runs the replicas of a service."""

    head_group_spec: RayGroup | None = None
    ray_cluster_config: RayConfig | None = None
    replicas: int = 1
    template: LabelledTemplate = LabelledTemplate()


class ServiceObject(TaskObject, frozen=True, kw_only=True):
    """An object that runs the replicas of a service."""

    spec: ServiceObjectSpec = ServiceObjectSpec()


class RayServeGraph(Object, frozen=True, kw_only=True):
    """A RayServeGraph: its spec is a part of the RayService that it becomes."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] | None = None


class Deployment(ServiceObject, frozen=True, kw_only=True):
    """A Deployment."""

    api_version: str = "apps/v1"
    kind: str = "Deployment"


class ReplicaSet(ServiceObject, frozen=True, kw_only=True):
    """A ReplicaSet."""

    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"


class RayService(ServiceObject, frozen=True, kw_only=True):
    """A RayService."""

    api_version: str = "ray.io/v1"
    kind: str = "RayService"


class RayCluster(ServiceObject, frozen=True, kw_only=True):
    """A RayCluster."""

    api_version: str = "ray.io/v1"
    kind: str = "RayCluster"
