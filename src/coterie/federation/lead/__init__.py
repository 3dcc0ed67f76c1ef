"""Who leads a run: its net, the orders to sites, who is there."""
