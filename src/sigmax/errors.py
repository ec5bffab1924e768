"""The two ways a job can fail, kept apart because the reader must do different things about them."""


class RequestError(ValueError):
    """The request was wrong: says what was expected, what came, and what to do. Exit code 2."""


class RunError(RuntimeError):
    """The request was fine but the run failed: says what is safe and how to go on. Exit code 1."""
