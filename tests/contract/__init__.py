"""The cluster layer against a real API server: what a fake would only repeat."""
