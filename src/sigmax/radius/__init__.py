"""TEMPORARY until gaussian.py is written."""
import numpy as np
from scipy.special import ndtri
def gaussian(sigma, lower, upper=None):
    a = ndtri(lower); b = -a if upper is None else min(ndtri(upper), -a)
    r = np.maximum(0.0, sigma/2*(a-b)*(1-1e-15))
    return float(r) if np.ndim(r)==0 else r
def largest(sigma, n, alpha): return gaussian(sigma, alpha**(1/n))
