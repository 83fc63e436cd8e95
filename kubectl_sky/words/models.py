"""The JSON of the command line, the REST API and the Python API: its kinds and their fields.

`as_json` returns these types, the OpenAPI and docs/json.md come from them, and a test compares what
every command prints with them. A field may be added in any version; another meaning or name needs a
new API version. Only the server and tests load this module: types alone cost no time at the start.
"""

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict  # pydantic reads those of typing only since Python 3.12

from kubectl_sky.words.documents import Note


class Document(TypedDict):
    """What every document begins with."""

    apiVersion: Annotated[str, Note("`kubectl-sky/v1`")]
    kind: Annotated[str, Note("the title of the table")]


class Problem(TypedDict):
    """A problem of a file. Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    path: Annotated[str, Note("field, such as `resources.cpus`")]
    message: str
    hint: Annotated[str, Note("what to do next; may be empty")]
    severity: Annotated[str, Note("`error` or `warning`")]
    document: Annotated[
        int, Note("number of the document in the file, from 1; 0 if it is the only one")
    ]
    strict: Annotated[bool, Note("a warning that `--strict` treats as an error")]


# `class` is a word of Python.
Danger = TypedDict(
    "Danger",
    {
        "class": Annotated[
            str, Note("`privileged`, `host`, …: see [security](security-review.md)")
        ],
        "path": str,
        "file": str,
        "document": int,
        "line": int,
        "column": int,
        "message": str,
        "refused": Annotated[bool, Note("the settings refuse it")],
    },
)
Danger.__doc__ = "A field that reaches beyond the task."


class Node(TypedDict):
    """A node of a task. Fields that are not set are left out."""

    index: Annotated[int, Note("rank")]
    name: Annotated[str, Note("`node-1`")]
    job: Annotated[str, Note("the object that runs it")]
    state: Annotated[str, Note("`pending`, `running`, `completed` or `failed`")]
    detailed_status: Annotated[str, Note("as of the task")]
    restarts: int
    pod: NotRequired[str]
    previous: NotRequired[Annotated[str, Note("the pod before the last restart")]]
    host: NotRequired[Annotated[str, Note("the cluster node that its pod runs on")]]
    reason: NotRequired[Annotated[str, Note("why it is pending or failed: `OOMKilled`")]]
    message: NotRequired[str]
    exit_code: NotRequired[int]
    started_at: NotRequired[str]
    ended_at: NotRequired[str]
    phase: NotRequired[Annotated[str, Note("where it failed, if known: `start`, `setup`")]]
    kept_by: NotRequired[
        Annotated[str, Note("containers that keep its pod although `main` has ended")]
    ]


class DeletedPod(TypedDict):
    """What is kept on this machine of a failed pod that was deleted."""

    rank: int
    name: str
    pod: str
    host: NotRequired[str]
    reason: NotRequired[str]
    message: NotRequired[str]
    started_at: NotRequired[Annotated[str, Note("when its cluster node accepted it")]]
    ended_at: NotRequired[str]
    exit_code: NotRequired[int]
    gpus: NotRequired[Annotated[int, Note("how many it held")]]
    gpu: NotRequired[Annotated[str, Note("their model, or the name of the resource")]]
    lines: Annotated[list[str], Note("its last log lines")]


class NodeResources(TypedDict):
    """What each node of a task requests, as Kubernetes quantities. Fields not set are left out."""

    gpus: int
    accelerators: NotRequired[Annotated[str, Note("`A100:8`, `A100:1 or H100:1`")]]
    cpus: NotRequired[Annotated[str, Note("`4`, `500m`")]]
    memory: NotRequired[Annotated[str, Note("`16Gi`")]]


class TaskMetadata(TypedDict):
    """The details of a task."""

    detailed_status: Annotated[
        str,
        Note(
            "`status`, or more specific: `queued` and `setting_up` for pending, `retrying` and"
            " `unknown` for running, `failed_setup` and `stopped` for failed"
        ),
    ]
    job_name: Annotated[str, Note("the object that runs its first node")]
    namespace: str
    backend: str
    num_nodes: int
    image: Annotated[str, Note("empty if it is not known")]
    resources: NodeResources
    node_jobs: Annotated[list[str], Note("the object that runs each node")]
    succeeded_nodes: int
    failed_nodes: int
    running_nodes: int
    pending_nodes: int
    restarts: int
    note: Annotated[str, Note("why it is pending or failed; may be empty")]
    nodes: list[Node]
    pipeline: NotRequired[Annotated[str, Note("id of the pipeline or group that it belongs to")]]
    pipeline_name: NotRequired[str]
    stage: NotRequired[Annotated[int, Note("from 1")]]
    evidence: NotRequired[Annotated[list[DeletedPod], Note("of `status`, if pods were deleted")]]


class Task(Document):
    """A task: `status TASK`, `GET /tasks/ID`, `TaskStatus.as_json()`."""

    task_id: str
    name: str
    status: Annotated[str, Note("`pending`, `running`, `completed` or `failed`")]
    created_at: Annotated[str, Note("RFC 3339, in UTC")]
    updated_at: str
    username: Annotated[str, Note("owner")]
    metadata: TaskMetadata
    context: NotRequired[Annotated[str, Note("of `list --all-contexts`")]]


class PipelineMetadata(TypedDict):
    """The details of a pipeline or group."""

    namespace: str
    num_tasks: int
    note: str


class Pipeline(Document):
    """A pipeline or group: `status PIPELINE`, `GET /tasks/ID`, `PipelineStatus.as_json()`."""

    pipeline_id: str
    name: str
    status: Annotated[str, Note("as of a task")]
    execution: Annotated[str, Note("`serial` or `parallel`")]
    created_at: str
    updated_at: str
    username: str
    metadata: PipelineMetadata
    tasks: list[Task]


class TaskList(Document):
    """Tasks, newest first: `list`, `wait`, `GET /tasks`."""

    tasks: list[Task]
    pipelines: NotRequired[Annotated[list[Pipeline], Note("of `wait` and REST, if there are any")]]
    next: NotRequired[Annotated[str | None, Note("of REST: the cursor of the next page")]]


class NotifiedTask(TypedDict):
    """A finished task."""

    task_id: str
    name: str
    namespace: str
    status: Annotated[str, Note("`completed` or `failed`")]
    note: Annotated[str, Note("why it has failed; may be empty")]


class Notification(Document):
    """What `wait --notify` sends."""

    status: Annotated[
        str,
        Note(
            "`completed`, or `failed` if a task has failed or was stopped;"
            " with `--for` also `running`, `deleted`"
        ),
    ]
    text: Annotated[str, Note("the same for people, as chat services show it")]
    tasks: Annotated[list[NotifiedTask], Note("empty if the wait ended because a task was stopped")]


class SubmittedFields(TypedDict):
    """The tasks of a submit."""

    file: NotRequired[Annotated[str, Note("of several files: its path")]]
    task_id: NotRequired[
        Annotated[str, Note("of a single task; of REST, also the id of a pipeline")]
    ]
    pipeline_id: NotRequired[Annotated[str | None, Note("of a pipeline or group")]]
    task_ids: NotRequired[Annotated[list[str] | None, Note("of a pipeline or group")]]
    status: Annotated[str, Note("`submitted`, `unchanged` or, of REST, `dry-run`")]
    message: str


class Report(TypedDict):
    """What a user is told about a task file."""

    notes: list[str]
    warnings: list[Problem]
    dangers: list[Danger]


class Submission(Document, SubmittedFields, Report):
    """A submit: `submit`, `POST /tasks/submit`."""

    manifests: NotRequired[Annotated[str | None, Note("of a dry run of REST: YAML")]]


class SubmissionList(Document):
    """A submit of several files: `submit FILE FILE`."""

    submitted: Annotated[list[Submission], Note("each with the warnings and dangers of its file")]
    notes: Annotated[list[str], Note("of all files")]


class Stopped(Document):
    """Tasks that were stopped: `stop`, `POST /tasks/stop`."""

    count: int
    status: Annotated[str, Note("`stopped`")]
    message: str
    task_ids: list[str]
    warnings: NotRequired[Annotated[list[str] | None, Note("of REST: objects that may remain")]]


class Validation(Document):
    """The problems of files: `validate`, `POST /validate`, `Validation.as_json()`."""

    valid: bool
    problems: list[Problem]
    dangers: list[Danger]
    notes: NotRequired[Annotated[list[str], Note("of `--live`")]]


class Finding(TypedDict):
    """A cause, and what to do."""

    rule: str
    stage: str
    what: str
    then: Annotated[str, Note("the next step")]
    nodes: Annotated[list[int], Note("ranks")]
    evidence: Annotated[str, Note("what the cluster says")]


class Diagnosis(Document):
    """Why a task does not start or has failed: `doctor TASK`, `GET /tasks/ID/doctor`."""

    task_id: str
    name: str
    status: str
    summary: str
    stages: Annotated[dict[str, str], Note("`ok`, `problem`, … by stage")]
    findings: list[Finding]
    not_readable: Annotated[list[str], Note("kinds that you may not list")]


MissingRight = TypedDict(
    "MissingRight",
    {"right": str, "optional": bool, "extra": str, "for": Annotated[str, Note("commands")]},
)
MissingRight.__doc__ = "A right that you lack."


class ClusterCheck(Document):
    """The cluster and your rights: `doctor`."""

    context: str
    server: str
    version: str
    namespace: str
    cluster_nodes: Annotated[int | None, Note("null if you may not list them")]
    default_storage_class: Annotated[str | None, Note("null if you may not list them")]
    api_groups: list[str]
    missing_rights: list[MissingRight]


class PhaseTime(TypedDict):
    """The time of a phase of a node, in whole seconds."""

    phase: Annotated[
        str,
        Note(
            "`queued`, `scheduling`, `starting`, `image` (pulled), `files`, `setup`, `run`, or"
            " `unknown` for a time that is one of those in the node's `unknown`"
        ),
    ]
    start: Annotated[str, Note("RFC 3339, in UTC")]
    end: Annotated[str | None, Note("null if it goes on")]


class NodeTimeline(TypedDict):
    """The phases of a node's latest attempt, in order."""

    index: Annotated[int, Note("rank")]
    name: str
    state: str
    restarts: int
    pod: Annotated[str, Note("may be empty")]
    phases: list[PhaseTime]
    unknown: Annotated[
        list[str], Note("phases whose times nothing tells: events expire, logs are long")
    ]


class TaskTimeline(TypedDict):
    """The nodes of a task. Logs, which tell when `run` began, are read of its first 20 nodes."""

    task_id: str
    name: str
    status: str
    nodes: list[NodeTimeline]


class Timeline(Document):
    """When nodes were queued and run: `status --timeline`, `GET /tasks/ID/timeline`."""

    now: Annotated[str, Note("the API server's time")]
    tasks: Annotated[list[TaskTimeline], Note("one, or those of a pipeline or group")]


class NodeUsage(TypedDict):
    """What a node uses, and what it requested."""

    node: Annotated[int, Note("rank")]
    pod: str
    cpus: float
    memory_bytes: int
    cpus_asked: float | None
    memory_bytes_asked: int | None
    gpus_asked: int | None


class Usage(Document):
    """The usage of a task's nodes: `top`, `GET /tasks/ID/usage`."""

    task_id: str
    nodes: list[NodeUsage]
    reason: NotRequired[Annotated[str, Note("of REST: why nothing can be measured")]]


class GpuSample(TypedDict):
    """A GPU as nvidia-smi or rocm-smi shows it in a node; null if that is not known."""

    rank: int
    pod: str
    gpu: Annotated[int, Note("index in the node")]
    name: str
    utilization_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    temperature_celsius: float | None
    power_watts: float | None
    power_limit_watts: float | None


class GpuFailure(TypedDict):
    """A node whose GPUs cannot be read."""

    rank: int
    pod: str
    message: str


class GpuUsage(Document):
    """The usage of the GPUs of a task's running nodes: `top --gpu`."""

    task_id: str
    gpus: list[GpuSample]
    failures: list[GpuFailure]


class GpuHours(TypedDict):
    """The GPU-hours of a user, a task name or a GPU."""

    key: Annotated[str, Note("the user, the task name or the GPU, as `by`")]
    tasks: int
    gpu_hours: float


class GpuHoursList(Document):
    """GPU-hours of the tasks that exist, also if their pods are deleted: `usage`, `GET /usage`."""

    since: str
    by: Annotated[str, Note("`user`, `name` or `gpu`")]
    rows: list[GpuHours]
    total: GpuHours
    inexact_tasks: Annotated[int, Note("tasks of which pods or Jobs are deleted")]


class GpuNode(TypedDict):
    """A cluster node with accelerators."""

    node: str
    accelerator: str
    resource: str
    total: int
    used: int | None
    free: int | None
    ready: bool
    users: Annotated[dict[str, int], Note("used, by user")]


class GpuList(Document):
    """Cluster nodes with accelerators: `gpus`, `GET /gpus`."""

    machines: list[GpuNode]


class Share(TypedDict):
    """The use of a resource of a queue; null if that is not known."""

    flavor: str
    resource: str
    used: Annotated[str, Note("by the namespace")]
    used_by_all: str | None
    quota: str | None


class Waiting(TypedDict):
    """A pending Workload of a queue."""

    workload: Annotated[str, Note("its owner: `Job/train-abc`")]
    position: Annotated[int, Note("from 1")]
    priority: int
    since: str
    reason: Annotated[str, Note("why it is pending; may be empty")]


class QueueFields(TypedDict):
    """A queue, its resources and what waits in it."""

    name: str
    namespace: str
    cluster_queue: str
    admitted: int
    pending: int
    stopped: Annotated[str, Note("why it admits nothing; empty if it is active")]
    pending_in_cluster_queue: Annotated[int | None, Note("null if you may not read it")]
    resources: list[Share]
    waiting: list[Waiting]


class Queue(Document, QueueFields):
    """A queue: `queues status`."""


class QueueList(Document):
    """The queues of the namespace: `queues list`, `GET /queues`."""

    queues: list[QueueFields]


class FairShareClass(TypedDict):
    """A PriorityClass of fair share; numbers are null if its annotations are invalid."""

    name: str
    queue: str
    owner: Annotated[str, Note("empty for a class that the settings list")]
    value: int
    base: Annotated[int | None, Note("value without penalty")]
    count: Annotated[int | None, Note("finished PodGroups that lower the value")]
    running: Annotated[int | None, Note("running PodGroups that lower the value")]
    recovers: Annotated[str, Note("time of the next step of the recovery, or empty")]


class FairShareList(Document):
    """The PriorityClasses of fair share: `queues fairshare`."""

    classes: list[FairShareClass]


class Port(TypedDict):
    """A port, and where it is served."""

    port: int
    address: str
    outside: Annotated[list[str], Note("addresses outside the cluster")]


class PortsFields(TypedDict):
    """The ports of a task, and their Service."""

    task_id: str
    name: str
    namespace: str
    service: str
    type: str
    cluster_ip: str
    pod: str
    ready: bool
    pending: Annotated[bool, Note("the Service has no address outside the cluster yet")]
    ports: list[Port]


class Ports(Document, PortsFields):
    """The ports of a task: `status --ports`."""


class PortsList(Document):
    """The ports of a pipeline's tasks: `status PIPELINE --ports`."""

    tasks: list[PortsFields]


class Quota(TypedDict):
    """A limit, and what is used of it."""

    quota: str
    resource: str
    used: str
    hard: str


class UserFields(TypedDict):
    """A user with a namespace."""

    user: str
    subject: Annotated[str, Note("`User`, `Group` or `ServiceAccount`")]
    namespace: str
    created_at: str
    queues: list[str]
    quotas: list[Quota]


class User(Document, UserFields):
    """A user: `users show`."""


class ReplicaCounts(TypedDict):
    """How many replicas a service has."""

    wanted: int
    ready: Annotated[int, Note("of any version")]
    updated: Annotated[int, Note("of this version")]
    total: Annotated[int, Note("also those that start or stop")]
    most: Annotated[int | None, Note("the autoscaler's limit")]


class Replica(TypedDict):
    """A replica of a service."""

    number: Annotated[int, Note("for `serve logs --replica`")]
    pod: str
    version: int
    ready: bool
    restarts: int
    host: Annotated[str, Note("cluster node")]
    created_at: str
    reason: Annotated[str, Note("why it is not ready")]


class ServiceFields(TypedDict):
    """A service."""

    name: str
    namespace: str
    username: str
    status: Annotated[str, Note("`starting`, `updating`, `ready`, `degraded` or `failed`")]
    created_at: str
    version: Annotated[int, Note("revision of the Deployment")]
    version_id: Annotated[str, Note("id of the version's objects")]
    replicas: ReplicaCounts
    endpoints: Annotated[list[str], Note("`HOST:PORT`; those outside the cluster first")]
    message: Annotated[str, Note("why it is not ready; may be empty")]
    findings: Annotated[list[Finding], Note("their `nodes` are numbers of replicas")]
    pods: list[Replica]


class Service(Document, ServiceFields):
    """A service: `serve up|update|status NAME`."""


class ServiceList(Document):
    """Services, newest first: `serve status`, `GET /services`."""

    services: list[ServiceFields]


class ServicesDeleted(Document):
    """Services that were deleted: `serve down`."""

    services: Annotated[list[str], Note("their names")]


class UserList(Document):
    """Users: `users list`."""

    users: list[UserFields]


class ControllerFields(TypedDict):
    """A controller of one namespace or of all."""

    controller: Annotated[str, Note("`tasks`, `ray` or `fairshare`")]
    namespace: Annotated[str, Note("where its Lease or Deployment is")]
    serves: Annotated[str, Note("the namespace that it acts on; empty for all")]
    replicas: Annotated[int | None, Note("of its Deployment; null without one")]
    ready: Annotated[int, Note("replicas that are ready")]
    leader: Annotated[str, Note("the process that holds its Lease; empty for none")]
    since: Annotated[str, Note("when the leader took the Lease")]
    last_action: Annotated[str, Note("a time and what it did last; may be empty")]


class ControllerList(Document):
    """Controllers: `controllers status`."""

    controllers: list[ControllerFields]


class Identity(Document):
    """The owner of what you create: `auth whoami`."""

    username: str
    label: Annotated[str, Note("the value of the label `username`")]
    source: Annotated[str, Note("where the name comes from")]


class LocalCluster(Document):
    """The local cluster: `local status`. Drivers add fields of their own."""

    state: str
    driver: str
    nodes: int
    gpus: str
    server: str
    kubeconfig: str
    used_in: str
    note: str
    context: str


class Setting(TypedDict):
    """A setting, or an environment variable that is set."""

    name: str
    value: Annotated[str | int | bool | list[str] | dict[str, Any], Note("as in the file")]
    source: Annotated[str, Note("`FILE:LINE`, `default` or `environment`")]


class Settings(Document):
    """The settings: `config view`."""

    settings: list[Setting]


class Version(Document):
    """The versions of the client and the cluster: `version`."""

    version: str
    clientVersion: NotRequired[Annotated[dict[str, str], Note("as in `kubectl version`")]]
    serverVersion: NotRequired[Annotated[dict[str, str], Note("without `--client`, if it answers")]]
    newestVersion: NotRequired[Annotated[str, Note("with `--check`")]]


class Health(TypedDict):
    """The answer of `GET /`."""

    status: str
    service: str


class WhoAmI(TypedDict):
    """The caller, and what the caller may see."""

    user: str
    groups: list[str]
    context: Annotated[str, Note("the context of the server's kubeconfig, or `in-cluster`")]
    namespace: Annotated[str, Note("the namespace of requests that name none")]
    all_namespaces: Annotated[bool, Note("whether the caller may list all namespaces")]
    namespaces: Annotated[list[str], Note("known namespaces in which the caller may list tasks")]


class Error(TypedDict):
    """An error: what is wrong, and what to do next."""

    detail: str
    hint: NotRequired[str]
    problems: NotRequired[list[Problem]]


class Rendered(Report):
    """Manifests as a YAML stream."""

    manifests: str


class Manifests(TypedDict):
    """The objects of a task as the cluster has them; secret values are redacted."""

    manifests: str


class TaskFile(TypedDict):
    """The YAML that a task was submitted with; null if it is too long to be kept."""

    file: str | None


class TaskStopped(TypedDict):
    """A stopped task or pipeline."""

    task_id: str
    status: Annotated[str, Note("`stopped`")]
    message: str
    warnings: NotRequired[Annotated[list[str], Note("objects that may remain")]]


class TaskResumed(TypedDict):
    """A stage of a pipeline that was suspended."""

    task_id: str
    status: Annotated[str, Note("`resumed`")]
    message: str


class ClusterEvent(TypedDict):
    """A Kubernetes event."""

    time: str
    type: str
    reason: str
    object: Annotated[str, Note("its kind and name")]
    message: str
    count: int


class ClusterEvents(TypedDict):
    """The events of a task's objects, newest first."""

    events: list[ClusterEvent]
