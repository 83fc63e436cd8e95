"""The edge: everything that talks to Kubernetes, and the only folder that imports its client."""
