"""`python -m sigmax`: the same as the command `sigmax`."""

from sigmax.cli.main import main

if __name__ == "__main__":
    main()
