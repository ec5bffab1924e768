"""Jobs: a scheme run over a data set."""
