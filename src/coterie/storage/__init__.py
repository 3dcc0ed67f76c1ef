"""Files: written so that a kill leaves the old or the new one, and tensors in them."""
