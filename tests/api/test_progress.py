"""Progress: what is reported, and how a run is stopped."""

import signal
import subprocess
import sys

import pytest
from images import texture

from nlridge import denoise


def test_progress_is_reported_to_a_function():
    seen = []
    denoise(texture(100, 300), 10, progress=lambda done, total: seen.append((done, total)))
    total = seen[0][1]
    assert total > 10
    assert seen == [(done, total) for done in range(1, total + 1)]


def test_a_progress_bar_is_shown_on_request(capfd):
    denoise(texture(100, 300), 10, progress=True)
    assert "denoising" in capfd.readouterr().err
    denoise(texture(100, 300), 10)
    assert capfd.readouterr().err == ""


def test_an_error_in_a_progress_function_stops_the_work():
    def progress(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        denoise(texture(200, 300), 10, progress=progress)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_ctrl_c_stops_the_work():
    """After few of its thousands of blocks."""
    program = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off
import numpy as np, nlridge
image = np.random.default_rng(0).normal(0, 50, (3000, 3000))
def progress(*blocks):
    global done, total
    done, total = blocks
    if done == 10:
        print("started", flush=True)
try:
    nlridge.denoise(image, 50, method="nl-ridge", data_range=255, progress=progress)
except KeyboardInterrupt:
    print(total > 1000, done < total / 4, flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "True True\n"
