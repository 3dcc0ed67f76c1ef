"""Who withdrew from sums, and who was kept out of them."""
