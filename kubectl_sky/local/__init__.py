"""Local clusters: one driver per file, and the code they share."""
