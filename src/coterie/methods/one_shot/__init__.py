"""Methods of one exchange, and posteriors without any."""
