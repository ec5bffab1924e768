"""Models of other libraries as base classifiers."""
