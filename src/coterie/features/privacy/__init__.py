"""What looking at rows has cost, in epsilon, and what noise costs."""
