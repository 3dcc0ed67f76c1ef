"""Sums and distances of replies that nobody sees: two servers, a dealer, and the ring that they count in.

Importing this package needs `cryptography` (pip install 'coterie[privacy]').
"""
