"""How fast votes are cast here: the loop the field's scripts use and the sigmax engine, side by side in one run."""
