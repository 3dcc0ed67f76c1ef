"""Kits: who is who, a party's folder, and the authority that makes them."""
