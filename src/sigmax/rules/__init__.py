"""What to sample and what follows from the counts: the rule of every scheme, free of torch."""
