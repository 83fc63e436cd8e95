"""The `$(NAME)` that Kubernetes expands in values of variables, where it is meant literally."""

import re


def literal(value: str) -> str:
    """Escape a value so that Kubernetes does not expand `$(NAME)` in it.

    Kubernetes reads `$$` as `$` (kubernetes/third_party/forked/golang/expansion).
    """
    return re.sub(r"\$(?=[$(])", "$$", value)


def unescape(value: str) -> str:
    """Return the value that `literal` escaped."""
    return re.sub(r"\$\$(?=[$(])", "$", value)
