"""Measurements of nlridge: ``make bench``, or ``python -m benchmarks --help``."""
