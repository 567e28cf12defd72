"""The algorithm: its settings, the passes over an image that they define, and the order of the passes."""
