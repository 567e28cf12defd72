"""Families to test, each with its two steps."""

import math

from groups import group

from nlridge.core.families import BM3D, Bayes, Ridge, TwoSided
from nlridge.core.families.bm3d import biorthogonal, haar

FAMILIES = {
    "ridge": Ridge(),
    "ridge, low rank": Ridge(tolerance=1.0),
    "two-sided": TwoSided(),
    "two-sided, penalty 1": TwoSided(penalty=1.0),
    "bayes": Bayes(),
    "bayes, noisier": Bayes(noisier=0.5),
    "bm3d": BM3D(),
    "bm3d, sqrt 2": BM3D(threshold=math.sqrt(2)),
    "bm3d, SURE": BM3D(threshold=None),
    "bm3d, Haar": BM3D(patch_transform=haar, group_transform=haar),
    "bm3d, biorthogonal": BM3D(patch_transform=biorthogonal, kaiser=2.0),
}
STEPS = [(name, step) for name in FAMILIES for step in ("pilot", "refine")]
WILD = ("bm3d, SURE", "pilot")  # divides by coefficients that may be next to nothing
TAME = [case for case in STEPS if case != WILD]


def estimator_and_group(name, step, n, m, **options):
    Y, X = group(n, m, **options)
    return getattr(FAMILIES[name], step), Y, Y if step == "pilot" else X
