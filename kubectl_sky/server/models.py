"""The shapes of answers, for the OpenAPI."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

_TASK: dict[str, JsonValue] = {
    "task_id": "train001",
    "name": "train",
    "status": "running",
    "created_at": "2026-01-05T12:34:56Z",
    "updated_at": "2026-01-05T12:35:01Z",
    "username": "alice@example.com",
    "metadata": {"namespace": "default", "num_nodes": 2, "job_name": "train-train001-node-0"},
}


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


class TaskStatus(BaseModel):
    """A task; details and its nodes are in `metadata`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TASK]})

    task_id: str
    name: str
    status: str = Field(description="pending, running, completed or failed")
    created_at: str
    updated_at: str
    username: str
    metadata: dict[str, object]


class TaskList(BaseModel):
    """Tasks, newest first; `next` is the cursor of the next page."""

    tasks: list[TaskStatus]
    next: str | None = None
