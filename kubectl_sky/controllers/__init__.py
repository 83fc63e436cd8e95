"""Controllers: handlers of kopf that act without a client; the only importer of kopf."""
