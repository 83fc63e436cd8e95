"""The JSON documents of tasks, pipelines and groups."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, UnsetType, field

from kubectl_sky.observe.mounts import PvcMount
from kubectl_sky.observe.nodes import Node, end_text
from kubectl_sky.observe.requested import NodeResources
from kubectl_sky.words.documents import Document, Note, Part, always


class DeletedPod(Part, frozen=True):
    """What is kept on this machine of a failed pod that was deleted."""

    rank: int
    name: str
    pod: str
    host: str = ""
    reason: str = ""
    message: str = ""
    ended_at: str = ""
    exit_code: Annotated[int | None, Note("not set if the container never ran")] = None
    lines: Annotated[tuple[str, ...], Note("its last log lines")] = always(())
    started_at: Annotated[str, Note("when its cluster node accepted it")] = ""
    gpus: Annotated[int | None, Note("how many it held")] = None
    gpu: Annotated[str, Note("their model, or the name of the resource")] = ""

    @property
    def end(self) -> str:
        """The reason, or the exit code and its meaning."""
        return end_text(self.reason, self.exit_code)


class TaskMetadata(Part, frozen=True, kw_only=True):
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
    logs: Annotated[str, Note("`PVC:PATH`, the folder in which its nodes also write logs")] = ""
    envs: Annotated[
        Mapping[str, str],
        Note("variables of the task file, with secrets masked; of a sweep, all values of each"),
    ] = {}
    files: Annotated[
        Mapping[str, str], Note("local files by target path: how many, bytes, and their hash")
    ] = {}
    revisions: Annotated[
        Mapping[str, str], Note("the git commit of these, and how many files have changed since")
    ] = {}
    volumes: Annotated[Sequence[PvcMount], Note("where its nodes have folders of PVCs")] = ()
    goodput_percent: Annotated[
        float | None, Note("of its time went into new steps, recorded when it had ended")
    ] = None
    pipeline: Annotated[str, Note("id of the pipeline or group that it belongs to")] = ""
    pipeline_name: str | None = None
    stage: Annotated[int | None, Note("from 1")] = None
    labels: Annotated[dict[str, str], Note("those of the task file, and of its queue")] = field(
        default_factory=dict
    )
    evidence: Annotated[list[DeletedPod], Note("of `status`, if pods were deleted")] = field(
        default_factory=list
    )


class Task(Document, frozen=True, kw_only=True):
    """A task: `status TASK`, `GET /tasks/ID`, `TaskStatus.as_json()`."""

    task_id: str
    name: str
    status: Annotated[str, Note("`pending`, `running`, `completed` or `failed`")]
    created_at: Annotated[str, Note("RFC 3339, in UTC")]
    updated_at: str
    username: Annotated[str, Note("owner")]
    metadata: TaskMetadata
    context: Annotated[str, Note("of `list --all-contexts`")] = ""


class PipelineMetadata(Part, frozen=True):
    """The details of a pipeline or group."""

    namespace: str
    num_tasks: int
    note: str


class Pipeline(Document, frozen=True, kw_only=True):
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


class TaskList(Document, frozen=True, kw_only=True):
    """Tasks, newest first: `list`, `wait`, `GET /tasks`."""

    tasks: list[Task]
    pipelines: Annotated[
        list[Pipeline] | UnsetType, Note("of `wait` and REST, if there are any")
    ] = UNSET
    next: Annotated[str | UnsetType | None, Note("of REST: the cursor of the next page")] = UNSET
    notes: Annotated[list[str] | UnsetType, Note("of REST: which tasks cannot be read")] = UNSET
