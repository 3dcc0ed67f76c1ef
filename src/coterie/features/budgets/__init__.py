"""What runs spend, budgets that end them, and methods at equal cost."""
