"""The vote engine: batching across inputs, precision, compilation, devices."""
