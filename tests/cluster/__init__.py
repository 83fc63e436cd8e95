"""A real Kubernetes for the tests: given by the user, or built and run right here."""
