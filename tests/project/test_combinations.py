"""Every combination of a kind of image with what can be asked for works, or is refused in one sentence."""

import numpy as np
import pytest
from combinations import ASKED, FEATURES, FRAMES, IMAGE, KINDS, PAGE, outcome, page_with, table

pytest.importorskip("torch")
pytest.importorskip("dask.array")
pytest.importorskip("zarr")


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_combination_works_or_is_refused_in_one_sentence(kind, feature):
    found = outcome(kind, feature)
    if isinstance(found, str):
        assert "; expected " in found
        assert "\n" not in found
        return
    noisy = FRAMES if KINDS[kind][1] else IMAGE
    assert found.shape[-2:] == ((8, 14) if feature == "region" else noisy.shape[-2:])
    assert np.isfinite(found).all()
    if feature not in ASKED or feature == "details":
        assert 2 < np.std(found - noisy) < 14


def test_the_page_has_the_table_that_the_combinations_give():
    assert PAGE.read_text("utf-8") == page_with(table())
