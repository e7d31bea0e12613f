"""What is kept: the lock that a project commits, and the user cache that spares repeated work."""
