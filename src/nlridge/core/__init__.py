"""The paper, from noisy planes to denoised planes: groups of patches, families, the two steps, and engines."""
