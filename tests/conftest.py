"""Fixtures that several files of tests share."""

import pytest


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
