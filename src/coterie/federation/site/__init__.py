"""A site's process: what it answers, what it keeps, and what it refuses."""
