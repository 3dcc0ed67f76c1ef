"""A page for the people at a site: who trained with whom, why, what it brought, what was given away."""
