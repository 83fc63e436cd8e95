"""The Python API: the same actions as the command line, as functions that return values.

Its public names are those of the package `kubectl_sky`; docs/python-api.md describes them.
"""
