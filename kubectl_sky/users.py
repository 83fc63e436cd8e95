"""Who a task or volume belongs to. Labels are for finding; RBAC is for protecting."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.errors import UserError


def named(name: str) -> "User":
    """Return the user of a name. Raises UserError for one that no label can stand for."""
    user = User(name.strip())
    if not user.label or not user.name.isprintable():
        raise UserError(
            f"{name!r} cannot be a user's name",
            "it needs a letter or digit, and no control characters",
        )
    return user


@dataclass(frozen=True)
class User:
    """A user by the name that they go by: `alice@example.com`."""

    name: str

    @property
    def label(self) -> str:
        """The name as a label value: `alice-example.com`."""
        return names.label_value(self.name)

    def owns(self, metadata: Mapping[str, object]) -> bool:
        """Say whether an object's metadata names this user.

        The label decides; where two names look alike as labels, the annotation tells them apart.
        """
        labels, annotations = metadata.get("labels"), metadata.get("annotations")
        labelled = isinstance(labels, Mapping) and labels.get(names.USERNAME) == self.label
        original = (
            annotations.get(names.ORIGINAL_USER) if isinstance(annotations, Mapping) else None
        )
        return labelled and original in (None, self.name)
