"""`sigmax train`: classifiers, routers, denoisers."""
