"""What is done to the probabilities of the models in use."""
