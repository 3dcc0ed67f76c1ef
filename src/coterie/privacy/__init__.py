"""What looking at rows costs them, added up: accounting, budgets and ledgers."""
