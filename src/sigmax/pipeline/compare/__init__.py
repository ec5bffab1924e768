"""Several schemes on the same data: the file of `sigmax compare`."""
