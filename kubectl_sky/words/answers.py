"""Define what is read of answers that are no objects: pages of lists, reviews, and discovery."""

from typing import Any, Generic, TypeVar

from msgspec import field

from kubectl_sky.words.objects import Fields

T = TypeVar("T")


class ListMetadata(Fields, frozen=True, kw_only=True):
    """The metadata of a page of a list."""

    continue_token: str | None = field(default=None, name="continue")
    resource_version: str | None = None


class Page(Fields, Generic[T], frozen=True, kw_only=True):
    """A page of a list; some servers write null for an empty one."""

    items: list[T] | None
    metadata: ListMetadata


def page_of(shape: type[T]) -> type[Page[T]]:
    """Return the type of a page of a list of such objects."""
    return Page[shape]  # type: ignore[valid-type]


class GroupVersion(Fields, frozen=True, kw_only=True):
    """A version of an API group."""

    version: str


class ApiGroup(Fields, frozen=True, kw_only=True):
    """An API group that a server serves."""

    name: str
    versions: tuple[GroupVersion, ...]


class ApiGroups(Fields, frozen=True, kw_only=True):
    """All API groups that a server serves."""

    groups: tuple[ApiGroup, ...]


class ApiResource(Fields, frozen=True, kw_only=True):
    """A resource of an API group, by its plural."""

    name: str


class ApiResources(Fields, frozen=True, kw_only=True):
    """The resources of a version of an API group."""

    resources: tuple[ApiResource, ...] | None


class AccessStatus(Fields, frozen=True, kw_only=True):
    """Whether a user may do something."""

    allowed: bool


class AccessReview(Fields, frozen=True, kw_only=True):
    """The answer to a SelfSubjectAccessReview."""

    status: AccessStatus


class UserInfo(Fields, frozen=True, kw_only=True):
    """A user, as the API server authenticated it."""

    groups: tuple[str, ...] = ()
    username: str


class UserStatus(Fields, frozen=True, kw_only=True):
    """Who the user is."""

    user_info: UserInfo


class UserReview(Fields, frozen=True, kw_only=True):
    """The answer to a SelfSubjectReview."""

    status: UserStatus


class DeletionAnswer(Fields, frozen=True, kw_only=True):
    """The answer to DELETE: a Status, or the object that is being deleted."""

    kind: str
    metadata: dict[str, Any]
