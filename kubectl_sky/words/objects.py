"""Define what is read of Kubernetes objects: of each kind the fields that this program uses.

An answer with other types is not one of a Kubernetes API server, and is refused as a whole. Fields
that are not listed may have any type, and take no memory: `managedFields` and pod templates are
nine tenths of a list. A field is None only if it may be null, or if absence has a meaning.
"""

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

T = TypeVar("T")
Time = Annotated[
    str,
    Meta(
        pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
        r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$"
    ),
]
MaybeTime = str | None  # users may write some, and any time; null if it is not set
Texts = dict[str, str]
Amount = str | int


class Fields(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A part of an answer: its fields are in camel case there."""


class Owner(Fields, frozen=True, kw_only=True):
    """A reference to the owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str
    uid: str
    controller: bool = False


class Metadata(Fields, frozen=True, kw_only=True):
    """The metadata of an object, as API servers guarantee them for any kind."""

    annotations: Texts = {}
    creation_timestamp: Time
    deletion_grace_period_seconds: int = 0
    deletion_timestamp: Time = ""
    finalizers: tuple[str, ...] = ()
    generation: int = 0
    labels: Texts = {}
    name: str
    namespace: str = ""
    owner_references: tuple[Owner, ...] = ()
    resource_version: str = ""
    uid: str

    @property
    def identity(self) -> dict[str, str]:
        """What names this object and no other one, for requests."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }


class Object(Fields, frozen=True, kw_only=True):
    """An object of any kind."""

    metadata: Metadata


NO_OBJECT = Object(metadata=Metadata(name="", uid="", creation_timestamp=""))


class Condition(Fields, frozen=True, kw_only=True):
    """A condition in a status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: MaybeTime = None


NO_CONDITION = Condition(type="", status="")  # of an object that has none of a type


def find_true(conditions: Iterable[Condition], *types: str) -> Condition | None:
    """Return the first true condition of these types, in the order of the status."""
    for condition in conditions:
        if condition.type in types and condition.status == "True":
            return condition
    return None


class LooseCondition(Fields, frozen=True, kw_only=True):
    """A condition that users may write: their values must not fail the lists of others."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: MaybeTime = None


class Conditions(Fields, frozen=True, kw_only=True):
    """A status of which only the conditions are read."""

    conditions: tuple[Condition, ...] = ()


class OtherStatus(Fields, frozen=True, kw_only=True):
    """A status; the API server writes null for the conditions of a new definition of a kind."""

    conditions: tuple[Condition, ...] | None = None


class AnyObject(Object, frozen=True, kw_only=True):
    """An object of a kind that is only written."""

    spec: dict[str, Any] = {}
    status: OtherStatus = OtherStatus()
