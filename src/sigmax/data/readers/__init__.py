"""The sources that come with sigmax, one format a file. Each registers its readers when it is imported."""

from sigmax.data.readers import archive, cifar, digits, folder, idx  # noqa: F401
