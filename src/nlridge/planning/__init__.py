"""Decide how an image is denoised, and convert its pixels to planes and back."""
