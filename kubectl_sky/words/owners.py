"""Owners of tasks and volumes. Labels are for finding; RBAC is for protection."""

import json
from collections.abc import Mapping

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.words import names

_MAX_SLUG = 40  # characters; a longer name is cut, and ends with a hash


def name_owner(name: str) -> "User":
    """Return the user with a name. Raises UserError if no label can represent it."""
    user = User(name.strip())
    if not user.label or not user.name.isprintable():
        raise UserError(
            f"invalid user name {json.dumps(name, ensure_ascii=False)}",
            "it needs an ASCII letter or digit, as in labels, and no control characters",
        )
    return user


class User(Struct, frozen=True):
    """A user, identified by a name such as `alice@example.com`."""

    name: str

    @property
    def label(self) -> str:
        """Return the name as a label value: `alice-example.com`."""
        return names.label_value(self.name)

    @property
    def slug(self) -> str:
        """Return the name as part of object names: `alice@example.com` is alice-example-com."""
        text = names.dns_label(self.name, "user")
        if len(text) < _MAX_SLUG - 1:  # a longer name may have been cut at a `-`
            return text
        cut = text[: _MAX_SLUG - names.ID_LENGTH - 1].rstrip("-")
        return f"{cut}-{names.part_id(self.name, 0)}"

    @property
    def namespace(self) -> str:
        return f"sky-{self.slug}"

    def owns(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        """Report whether this user owns the object with these labels and annotations.

        Two names can have the same label. The annotation has the name if the label cannot hold it.
        """
        label = labels.get(names.USERNAME)
        return label == self.label and annotations.get(names.ORIGINAL_USER, label) == self.name
