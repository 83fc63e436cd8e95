"""What goes on without a client: a process that runs controllers, and the one of tasks."""
