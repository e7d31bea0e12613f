"""What a report of a project shows, as values: worked out from a lock, its specs, its past and the user cache. Pure."""
