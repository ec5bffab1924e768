"""The report as one HTML page that loads nothing: the browser draws curves and single inputs from packed data."""
