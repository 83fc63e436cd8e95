"""A namespace with rights and a quota for each user: `users`."""
