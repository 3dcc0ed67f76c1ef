"""Ranking before training: whom is it worth learning with? Methods that fill the collaboration matrix."""
