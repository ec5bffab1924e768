"""The report as one HTML page that needs nothing beside itself: it opens from disk, offline, and loads nothing.

Tables and sentences are written here; curves and the explorer of single inputs are drawn in the browser, by
plotly.js, from the data packed into the page. Everything shown is rounded before it is packed, never upward.
"""

from sigmax.report.html.document import document

__all__ = ["document"]
