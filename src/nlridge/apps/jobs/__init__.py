"""Whole files: which to read, where to write the results, and the denoising of each."""
