"""BM3D of the plug-in bm3dcpu for VapourSynth, the fastest on CPUs, in instructions of AVX2: "bm3dcpu,step=4"."""

from . import _vapoursynth

# The best strengths for two stages: see `python -m benchmarks --only strengths`.
_STRENGTHS = {15: 19.2, 25: 32.7, 50: 70.1}


def denoiser(step: int = 8, range: int = 9, stages: int = 2, strength: float = 0.0):
    """`step` is the distance between blocks, and `range` how far away similar ones are searched for."""
    stage = ("bm3dcpu.BM3Dv2", {"block_step": step, "bm_range": range})
    return _vapoursynth.denoiser("bm3dcpu", [stage] * stages, _STRENGTHS, strength)
