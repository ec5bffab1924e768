"""What is measured: each file is a command, `python benchmarks/NAME.py` or `python -m benchmarks.NAME`."""
