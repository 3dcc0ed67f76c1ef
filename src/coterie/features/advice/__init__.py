"""With whom should each client train: trials of several ways on its own training rows, and what they say."""
