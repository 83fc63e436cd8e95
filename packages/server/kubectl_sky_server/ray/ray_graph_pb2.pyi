from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RayGraph(_message.Message):
    __slots__ = ("schema_version", "revision", "deployments", "edges", "applications")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENTS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    revision: str
    deployments: _containers.RepeatedCompositeFieldContainer[Deployment]
    edges: _containers.RepeatedCompositeFieldContainer[Edge]
    applications: _containers.RepeatedCompositeFieldContainer[Application]
    def __init__(self, schema_version: _Optional[int] = ..., revision: _Optional[str] = ..., deployments: _Optional[_Iterable[_Union[Deployment, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ..., applications: _Optional[_Iterable[_Union[Application, _Mapping]]] = ...) -> None: ...

class Deployment(_message.Message):
    __slots__ = ("name", "import_path", "replicas", "autoscaling", "resources", "max_ongoing_requests", "max_queued_requests", "user_config_json", "arguments_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMPORT_PATH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    AUTOSCALING_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    MAX_ONGOING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    USER_CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    import_path: str
    replicas: int
    autoscaling: Autoscaling
    resources: Resources
    max_ongoing_requests: int
    max_queued_requests: int
    user_config_json: str
    arguments_json: str
    def __init__(self, name: _Optional[str] = ..., import_path: _Optional[str] = ..., replicas: _Optional[int] = ..., autoscaling: _Optional[_Union[Autoscaling, _Mapping]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., max_ongoing_requests: _Optional[int] = ..., max_queued_requests: _Optional[int] = ..., user_config_json: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class Autoscaling(_message.Message):
    __slots__ = ("min_replicas", "max_replicas", "initial_replicas", "target_ongoing_requests", "upscale_delay_seconds", "downscale_delay_seconds")
    MIN_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TARGET_ONGOING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    UPSCALE_DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DOWNSCALE_DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    min_replicas: int
    max_replicas: int
    initial_replicas: int
    target_ongoing_requests: float
    upscale_delay_seconds: float
    downscale_delay_seconds: float
    def __init__(self, min_replicas: _Optional[int] = ..., max_replicas: _Optional[int] = ..., initial_replicas: _Optional[int] = ..., target_ongoing_requests: _Optional[float] = ..., upscale_delay_seconds: _Optional[float] = ..., downscale_delay_seconds: _Optional[float] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("cpu", "gpu", "memory_bytes", "accelerator_type", "custom")
    CPU_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    cpu: float
    gpu: float
    memory_bytes: int
    accelerator_type: str
    custom: _containers.RepeatedCompositeFieldContainer[CustomResource]
    def __init__(self, cpu: _Optional[float] = ..., gpu: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., accelerator_type: _Optional[str] = ..., custom: _Optional[_Iterable[_Union[CustomResource, _Mapping]]] = ...) -> None: ...

class CustomResource(_message.Message):
    __slots__ = ("name", "amount")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    amount: float
    def __init__(self, name: _Optional[str] = ..., amount: _Optional[float] = ...) -> None: ...

class Edge(_message.Message):
    __slots__ = ("caller", "callee", "argument")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CALLEE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    caller: str
    callee: str
    argument: str
    def __init__(self, caller: _Optional[str] = ..., callee: _Optional[str] = ..., argument: _Optional[str] = ...) -> None: ...

class Application(_message.Message):
    __slots__ = ("name", "route_prefix", "ingress", "runtime_env_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTE_PREFIX_FIELD_NUMBER: _ClassVar[int]
    INGRESS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_ENV_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    route_prefix: str
    ingress: str
    runtime_env_json: str
    def __init__(self, name: _Optional[str] = ..., route_prefix: _Optional[str] = ..., ingress: _Optional[str] = ..., runtime_env_json: _Optional[str] = ...) -> None: ...
