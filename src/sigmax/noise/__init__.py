"""From (input, sigma, draws) to counts: addressed noise and the vote engine."""
