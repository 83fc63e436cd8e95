"""The verbs: each joins core and edge in a short paragraph."""
