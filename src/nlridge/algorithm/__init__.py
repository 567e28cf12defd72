"""The algorithm: its settings, the passes over an image that they stand for, and how these follow each other."""
