"""How fast votes are cast here: the reference loop and the sigmax engine, side by side in one run."""
