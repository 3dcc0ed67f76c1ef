"""Who is worth learning with: a ranking of the others, before anything is trained together."""
