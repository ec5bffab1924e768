"""Log files of other tools."""
