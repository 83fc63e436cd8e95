"""Services: replicas behind one address, created, updated and shown in a cluster."""
