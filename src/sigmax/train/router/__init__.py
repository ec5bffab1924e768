"""Router training."""
