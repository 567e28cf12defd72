"""Where a step of the algorithm runs."""
