"""Engines, which run a pass over an image: on the CPU, or on PyTorch tensors."""
