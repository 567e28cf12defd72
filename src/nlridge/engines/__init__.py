"""Where a pass over an image runs: on the CPU, or on tensors of PyTorch."""
