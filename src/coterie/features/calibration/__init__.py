"""How sure models are, and how often they are right."""
