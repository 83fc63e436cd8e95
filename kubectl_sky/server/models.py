"""The shapes of answers, for the OpenAPI."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from kubectl_sky.documents import API_VERSION

_TASK: dict[str, JsonValue] = {
    "task_id": "train001",
    "name": "train",
    "status": "running",
    "created_at": "2026-01-05T12:34:56Z",
    "updated_at": "2026-01-05T12:35:01Z",
    "username": "alice@example.com",
    "metadata": {"namespace": "default", "num_nodes": 2, "job_name": "train-train001-node-0"},
}


TASK_FILE: dict[str, JsonValue] = {
    "name": "train",
    "num_nodes": 2,
    "resources": {"cpus": "1", "memory": "1Gi", "image_id": "python:3.13-slim"},
    "envs": {"EPOCHS": "3"},
    "run": "echo node $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES",
}


class Document(BaseModel):
    """A document, as kubectl_sky/documents.py has it."""

    model_config = ConfigDict(populate_by_name=True)

    api_version: str = Field(API_VERSION, alias="apiVersion")


class Health(BaseModel):
    """The answer of `GET /`."""

    status: str = "ok"
    service: str = "k8s-cli-api"


class WhoAmI(BaseModel):
    """The caller, and what the caller may see."""

    user: str
    groups: list[str]
    namespace: str = Field(description="The namespace of requests that name none.")
    all_namespaces: bool = Field(description="Whether the caller may list all namespaces.")


class FileProblem(BaseModel):
    """A problem of a task file. Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    severity: str = "error"
    document: int = 0
    strict: bool = False


class Problem(BaseModel):
    """An error: what is wrong, and what to do next."""

    detail: str
    hint: str | None = None
    problems: list[FileProblem] | None = None


class TaskStatus(Document):
    """A task; details and its nodes are in `metadata`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TASK]})

    kind: str = "Task"
    task_id: str
    name: str
    status: str = Field(description="pending, running, completed or failed")
    created_at: str
    updated_at: str
    username: str
    metadata: dict[str, object]


class TaskList(Document):
    """Tasks, newest first; `next` is the cursor of the next page."""

    kind: str = "TaskList"
    tasks: list[TaskStatus]
    next: str | None = None


class PipelineStatus(Document):
    """A pipeline or group, with its tasks."""

    kind: str = "Pipeline"
    pipeline_id: str
    name: str
    status: str
    execution: str = Field(description="serial or parallel")
    created_at: str
    updated_at: str
    username: str
    metadata: dict[str, object]
    tasks: list[TaskStatus]


class Danger(BaseModel):
    """A field that reaches beyond the task."""

    model_config = ConfigDict(extra="allow")

    path: str
    line: int
    column: int
    message: str
    refused: bool


class Report(BaseModel):
    """What is to be known about a task file."""

    notes: list[str]
    warnings: list[FileProblem]
    dangers: list[Danger]


class Submitted(Document, Report):
    """The result of a submit; a dry run has `manifests` and no id of its own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task_id": "train001",
                    "status": "submitted",
                    "message": "Task submitted successfully with ID: train001",
                    "notes": [],
                    "warnings": [],
                    "dangers": [],
                }
            ]
        }
    )

    kind: str = "Submission"
    task_id: str
    status: str = Field(description="submitted, unchanged or dry-run")
    message: str
    pipeline_id: str | None = None
    task_ids: list[str] | None = None
    manifests: str | None = None


class Rendered(Report):
    """Manifests as a YAML stream."""

    manifests: str


class Validated(Document):
    """The problems of a task file."""

    kind: str = "Validation"
    valid: bool
    problems: list[FileProblem]
    dangers: list[Danger]


class Stopped(BaseModel):
    """A stopped task or pipeline."""

    task_id: str
    status: str = "stopped"
    message: str
    warnings: list[str] | None = None


class StoppedAll(Document):
    """The number of stopped tasks."""

    kind: str = "Stopped"
    count: int
    status: str = "stopped"
    message: str
    task_ids: list[str]
    warnings: list[str] | None = None


class Verdict(Document):
    """Why a task does not start or has failed."""

    kind: str = "Diagnosis"
    task_id: str
    name: str
    status: str
    summary: str
    stages: dict[str, str]
    findings: list[dict[str, object]]
    not_readable: list[str]


class Manifests(BaseModel):
    """The objects of a task as the cluster has them; secret values are redacted."""

    manifests: str


class NodeUsage(BaseModel):
    """What a node uses, and what it requested."""

    node: int
    pod: str
    cpus: float
    memory_bytes: int
    cpus_asked: float | None
    memory_bytes_asked: int | None
    gpus_asked: int | None


class Usage(Document):
    """The usage of the nodes that have been measured."""

    kind: str = "Usage"
    task_id: str
    nodes: list[NodeUsage]


class Gpus(Document):
    """The cluster nodes with accelerators."""

    kind: str = "GpuList"
    machines: list[dict[str, object]]


class Queues(Document):
    """The queues of the namespace."""

    kind: str = "QueueList"
    queues: list[dict[str, object]]


class NewVolume(BaseModel):
    """A volume to create."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "data-vol", "size": "10Gi"}]}
    )

    name: str = Field(min_length=1, max_length=253)
    size: str = Field(max_length=40, description="10Gi, 1Ti; a number is GiB")
    storage_class: str | None = Field(None, max_length=253)
    access_modes: list[str] = Field(["ReadWriteOnce"], max_length=8)


class VolumeCreated(Document):
    """A new volume."""

    kind: str = "VolumeCreated"
    volume_id: str
    status: str = "created"
    message: str
    notes: list[str]


class VolumeStatus(Document):
    """A volume: a PVC with a name and an owner."""

    kind: str = "Volume"
    volume_id: str
    name: str
    size: str
    storage_class: str
    access_modes: list[str]
    status: str = Field(description="Pending, Bound, Lost or Terminating")
    created_at: str
    username: str
    metadata: dict[str, object]
    used_by: list[str] | None = None


class VolumeList(Document):
    """Volumes, newest first."""

    kind: str = "VolumeList"
    volumes: list[VolumeStatus]


class VolumeDeleted(BaseModel):
    """A deleted volume."""

    volume_id: str
    status: str = "deleted"
    message: str


class ClusterEvent(BaseModel):
    """A Kubernetes event; `object` is its kind and name."""

    time: str
    type: str
    reason: str
    object: str
    message: str
    count: int


class ClusterEvents(BaseModel):
    """The events of a task's objects, newest first."""

    events: list[ClusterEvent]
