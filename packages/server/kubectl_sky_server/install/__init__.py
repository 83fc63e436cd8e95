"""What runs in a cluster: the server and the controllers."""
