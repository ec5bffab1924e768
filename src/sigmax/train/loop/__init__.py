"""The training loop and what every training shares."""
