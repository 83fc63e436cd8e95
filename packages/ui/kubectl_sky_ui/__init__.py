"""The full-screen terminal interface of `kubectl sky ui`."""

__version__ = "0.1.0"
