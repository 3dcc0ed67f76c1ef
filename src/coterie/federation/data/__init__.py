"""Rows of a site, and what sites tell of them before they learn together."""
