"""How a plan runs: one file a backend."""
