"""The plan of a run: what it will ask of sites, found, signed, shown and held to."""
