"""Learning without a server: everybody has a model of its own and averages it with those of some peers."""
