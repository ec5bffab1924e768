"""TEMPORARY until fixed.py, anytime.py, budget.py are written."""
import math
from scipy.special import betaincinv, betainccinv, betainc
def lower(k, n, alpha): return 0.0 if k == 0 else float(betaincinv(k, n-k+1, alpha))
def upper(k, n, alpha): return 1.0 if k == n else float(betainccinv(k+1, n-k, alpha))
def fewest_draws(alpha):
    n = 1
    while alpha ** (1/n) <= 0.5: n += 1
    return n
def fewest_draws_to_predict(alpha):
    n = 1
    while 2*0.5**n > alpha: n += 1
    return n
def two_sided_p_value(k, m):
    k = max(k, m-k)
    return 1.0 if 2*k == m else min(1.0, 2*float(betainc(k, m-k+1, 0.5)))
class Budget:
    def __init__(self, alpha): self.alpha = alpha
    def spend(self, a, on): return a
