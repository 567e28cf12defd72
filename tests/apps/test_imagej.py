"""The macro for ImageJ, in ImageJ. Skipped unless Debian's package imagej and xvfb are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

from nlridge.apps.cli import main

MACRO = Path(__file__).parents[2] / "packaging" / "imagej" / "nlridge" / "Denoise_.ijm"
JAR = Path("/usr/share/java/ij.jar")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (JAR.exists() and shutil.which("java") and shutil.which("xvfb-run")),
        reason="ImageJ, Java or xvfb is not installed",
    ),
]


def test_a_hyperstack_has_the_bits_of_the_command_line(tmp_path):
    y, x = np.mgrid[:40, :48]
    scene = 1000 + 400 * np.sin(x / 6) * np.cos(y / 7)
    noisy = scene + np.random.default_rng(0).normal(0, 80, (3, 2, 40, 48))
    metadata = {"axes": "TCYX", "unit": "um", "finterval": 2.5, "mode": "composite"}
    source, result = tmp_path / "a.tif", tmp_path / "b.tif"
    tifffile.imwrite(
        source, noisy.astype(np.uint16), imagej=True, resolution=(5.0, 5.0), metadata=metadata
    )
    command = tmp_path / "nlridge"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m nlridge "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    arguments = f"command={command} options=[--method fast]"
    script = tmp_path / "run.ijm"
    script.write_text(
        f'open("{source}"); runMacro("{MACRO}", "{arguments}"); saveAs("Tiff", "{result}");',
        encoding="utf-8",
    )
    subprocess.run(
        ["xvfb-run", "--auto-servernum", "java", "-jar", JAR, "-batch", script],
        check=True,
        timeout=180,
    )
    assert main(["denoise", str(source), "--method", "fast", "--frames", "time"]) == 0
    with tifffile.TiffFile(result) as file:
        np.testing.assert_array_equal(file.asarray(), tifffile.imread(tmp_path / "a_denoised.tif"))
        assert file.imagej_metadata["frames"] == 3
        assert file.imagej_metadata["channels"] == 2
        assert file.imagej_metadata["finterval"] == 2.5
        assert file.pages[0].resolution == (5.0, 5.0)
    assert not list(tmp_path.glob("nlridge-*.tif"))
