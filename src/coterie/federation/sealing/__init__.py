"""Sealed sums over a federation: who leads, a helper, a site."""
