"""The full-screen terminal interface of `kubectl sky ui`; only this folder imports Textual."""
