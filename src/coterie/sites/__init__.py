"""Sites in the making: clients held once, behind frozen layers if wanted, or without a fold of their rows."""
