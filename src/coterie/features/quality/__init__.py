"""What a check of the data found."""
