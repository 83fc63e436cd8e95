"""How a plan runs: one file a backend, and their registry."""
