"""For administrators: the REST server and its pages, controllers, users, and their manifests."""

__version__ = "0.1.0"
