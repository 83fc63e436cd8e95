"""A real Kubernetes for the tests: given by the user, from kind, or built and run right here."""
