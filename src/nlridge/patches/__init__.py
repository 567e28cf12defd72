"""Patches: find similar ones, collect them in groups, and average groups back into an image."""
