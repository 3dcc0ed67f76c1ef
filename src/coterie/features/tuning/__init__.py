"""Options picked by cross-validation on the clients' own training rows, for each method by itself."""
