"""One model for each kind of client, and kinds that nobody knows before."""
