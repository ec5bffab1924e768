"""Where a job is done: in this process (`local`), by processes of this machine, or by actors of a Ray cluster."""
