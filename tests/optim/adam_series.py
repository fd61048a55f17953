#!/usr/bin/python3
"""Measures the error of the series in optim/DEFERRED_STEPS.md, in long double.

Uses the pieces and powers of DeferredSteps, and compares the series with the sum over all steps.
Prints the largest relative error for each pair of betas, in units of the last place.
"""

import random

from numpy import longdouble, sqrt

TYPES = {"float": (6, 2.0**-23, 3.4e38), "double": (10, 2.0**-52, 1.79e308)}
EPSILON = longdouble(1e-8)


def steps_of(beta1, beta2, first, count):
    """Yields a and g of each step, and the remaining fraction of the mean."""
    mean = root = longdouble(1)
    for at in range(first + 1, first + count + 1):
        mean, root = mean * beta1, root * sqrt(longdouble(beta2))
        yield mean / (1 - longdouble(beta1)**at), root / sqrt(1 - longdouble(beta2)**at), mean


def error(powers, unit, most, steps, s):
    root = sqrt(longdouble(most))
    pieces, total = [], longdouble(0)
    for a, g, mean in steps:
        if not pieces:
            first = g * root + EPSILON
        if pieces and mean * first <= unit**2 * (g * root + EPSILON):
            break
        total += a
        if pieces:
            begin, members, weight = pieces[-1]
            z = g / begin - 1
            fits = abs(z) <= 0.5 and a * abs(z)**powers * weight <= unit / 64 * total
        if not pieces or not fits:
            pieces.append((g, [], first / (g * root + EPSILON)))
            z = longdouble(0)
        pieces[-1][1].append((a, z))
    series = sum(a * sum((-z * g * s / (g * s + EPSILON))**i for i in range(powers))
                 / (g * s + EPSILON) for g, members, _ in pieces for a, z in members)
    exact = sum(a / (g * s + EPSILON) for a, g, _ in steps)
    return float(abs(series / exact - 1)) / unit


def main():
    random.seed(1)
    for name, (powers, unit, most) in TYPES.items():
        for betas in ((0.9, 0.999), (0.9, 0.99), (0.9, 0.95), (0.8, 0.999), (0.95, 0.99)):
            worst = max(
                error(powers, unit, most,
                      list(steps_of(*betas, random.choice((0, 1, 5, 20, 100, 1000, 10000)),
                                    random.choice((1, 3, 10, 50, 200, 1000)))),
                      EPSILON / longdouble(10)**random.uniform(-8, 8))
                for _ in range(60))
            print(f"{name:7} beta {betas}: {worst:.2f} units")


if __name__ == "__main__":
    main()
