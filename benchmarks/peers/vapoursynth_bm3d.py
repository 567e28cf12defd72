"""VapourSynth-BM3D, the first plug-in with BM3D for VapourSynth: "vapoursynth_bm3d,profile=lc"."""

from . import _vapoursynth

# The best strengths: see `python -m benchmarks --only strengths`.
_STRENGTHS = {15: 21.1, 25: 35.8, 50: 80.3}


def denoiser(profile: str = "lc", strength: float = 0.0):
    """`profile` is fast, lc (low complexity), np (normal), or high."""
    stages = [(f"bm3d.{name}", {"profile": profile}) for name in ("Basic", "Final")]
    return _vapoursynth.denoiser("vapoursynth_bm3d", stages, _STRENGTHS, strength)
