"""How alike the sites are, two by two, before anything is trained."""
