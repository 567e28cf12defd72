"""Fixtures that several files of tests share, and the choice of those that `make quick` runs."""

import sys

import pytest


class LeftOut:
    """As if PyTorch and browsers were not installed, so that tests that need them are skipped: they take seconds to start."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("torch", "selenium"):
            raise ModuleNotFoundError(f"{name} is left out", name=name)


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help="run the first case of each test that is not slow, without PyTorch and browsers",
    )


def pytest_configure(config):
    if config.getoption("quick"):
        sys.meta_path.insert(0, LeftOut)


def pytest_collection_modifyitems(config, items):
    if not config.getoption("quick"):
        return
    chosen = {}
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in ("slow", "long")):
            chosen.setdefault((item.path, getattr(item, "originalname", item.name)), item)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen.values()])
    items[:] = chosen.values()


@pytest.fixture
def one_torch_thread():
    """Waking threads for small matrices takes longer than the work, above all on a busy machine."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A client of a studio, as its page is one."""
    from studio_client import Page, serving

    with serving(tmp_path_factory.mktemp("studio")) as running:
        yield Page(running.address)


@pytest.fixture(scope="session")
def laptop():
    """A browser of the size of a laptop, for all tests of a process: to start one takes seconds."""
    from browsers import browser

    with browser(1366, 1000) as driver:
        yield driver


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Images to open on the page of the studio: in color, of 16 bits, a stack, and no image at all."""
    import numpy as np
    import tifffile
    from PIL import Image
    from skimage import data
    from studio_page import NAME, noisy_part

    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    clean = 40 + 0.6 * data.astronaut()[20:108, 160:280].astype(float)
    noisy = np.clip(clean + rng.normal(0, 20, clean.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(folder / NAME)
    tifffile.imwrite(folder / "deep.tif", np.clip(noisy_part(1, 96, 120) * 50 + 500, 0, 65535).astype(np.uint16))  # fmt: skip
    frames = np.stack([[noisy_part(k, 64, 80) * 20, noisy_part(k, 64, 80) * 10] for k in range(4)])
    metadata = {"axes": "TCYX", "Channel": {"Name": ["DAPI", "<i>GFP</i>"]}}
    tifffile.imwrite(folder / "cells.ome.tif", frames.clip(0).astype(np.uint16), metadata=metadata)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    return folder
