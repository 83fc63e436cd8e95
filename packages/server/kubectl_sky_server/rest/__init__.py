"""The REST server: the same actions as the command line, over HTTP, as the caller."""
