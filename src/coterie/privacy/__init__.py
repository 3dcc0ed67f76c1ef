"""What looks at rows with noise cost: from charges to epsilon and delta, and what was spent so far."""
