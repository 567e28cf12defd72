"""Simulated cameras: the half of their shots that nothing was learned from, denoised with noise that is estimated."""

from .judging import add_arguments, run

__all__ = ["add_arguments", "run"]
