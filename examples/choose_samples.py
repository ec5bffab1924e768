"""How many samples do I need? Answered before anything is sampled, at once: python examples/choose_samples.py

The same on the command line: sigmax plan --radius 0.5 --sigma 0.25 --p 0.99
"""

import sigmax as sx
from sigmax.records.rounding import down, up

RADIUS, SIGMA, ALPHA = 0.5, 0.25, 0.001

print(f"Samples that certify radius {RADIUS} at sigma {SIGMA}, alpha {ALPHA}, with a chance of 95%:")
for p in (0.95, 0.97, 0.98, 0.99, 0.999, 1.0):
    needed = sx.planning.samples_needed(RADIUS, sigma=SIGMA, p=p, alpha=ALPHA)
    if needed.in_reach:
        print(f"  p_A {p}: {needed.samples:,}")
    else:
        print(f"  p_A {p}: out of reach, the radius stays below {up(needed.limit, 4)}")
least = down(needed.least_p, 4)
print(f"  no input with p_A at or below {least}, and never fewer than {needed.unanimous} samples\n")

print(f"The chance that n samples certify it, if p_A is 0.99; and at 1000 samples what alpha costs (radius {RADIUS}):")
for n in (300, 1_000, 2_235, 10_000):
    print(f"  n {n}: {sx.planning.chance_to_certify(RADIUS, sigma=SIGMA, n=n, alpha=ALPHA, p=0.99):.3f}")
for alpha in (0.01, 0.001, 0.0001):
    print(f"  alpha {alpha}: {sx.planning.least_votes(RADIUS, sigma=SIGMA, n=1_000, alpha=alpha)} votes of 1000")
