"""Patches: finding similar ones, collecting them in groups, putting them back into an image."""
