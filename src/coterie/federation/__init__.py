"""A federation of hosts: who belongs to it, how they reach each other, and what a site takes part in."""
