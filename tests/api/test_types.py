"""What type checkers know about the public functions."""

import re
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
import nlridge

class Tensor:
    requires_grad: bool = False

class DaskArray:
    def compute_chunk_sizes(self) -> "DaskArray": ...

image = np.zeros((8, 8))
reveal_type(nlridge.denoise(image, 10, method="fast"))
reveal_type(nlridge.denoise([[1.0, 2.0]], sigma=[1.0]))
reveal_type(nlridge.denoise(Tensor(), 10))
reveal_type(nlridge.denoise(DaskArray(), sigma=10, method="best"))
reveal_type(nlridge.denoise_to_disk(image, "a.zarr"))
reveal_type(nlridge.denoise_with_details(image).noise)
reveal_type(nlridge.denoise(image, dtype=np.uint8))
reveal_type(nlridge.prepare(image).details())
reveal_type(nlridge.denoise_mosaic(image, "RGGB"))
nlridge.denoise(image, sigmas=10)
"""


@pytest.mark.slow
def test_type_checkers_know_what_denoise_returns(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", program]
    done = subprocess.run(command, capture_output=True, text=True)
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    array, row, tensor, dask_array, stored, noise, pixels, details, raw = types
    assert "ndarray" in array
    assert "floating" in array
    assert row == array
    assert tensor == "program.Tensor"
    assert dask_array == "program.DaskArray"
    assert stored == "Any"
    assert noise == "nlridge.noise.Noise"
    assert "ndarray" in pixels
    assert pixels.endswith("dtype[Any]]")  # any type
    assert details == "nlridge.api.details.Denoised"
    assert "ndarray" in raw
    assert "No overload variant" in done.stdout  # for an argument that does not exist
