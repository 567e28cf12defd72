"""Patches: find similar ones, collect them in groups, and average the groups back into an image."""
