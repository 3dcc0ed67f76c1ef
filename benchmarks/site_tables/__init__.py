"""Real tables of several sites: what they are, how they are read and split, who trains on them."""
