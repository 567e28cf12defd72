"""Dask arrays, and images larger than memory on a cluster: the same result to the bit."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from large_images import GIVEN, counts, kept, kills, noisy, partly_known

import nlridge
from nlridge.apps.cli import main
from nlridge.images.executors import Cluster

zarr = pytest.importorskip("zarr")


@pytest.mark.long
def test_masks_and_maps_on_a_cluster(client, tmp_path):
    image, mask, sigma = partly_known()
    arrays = {"image": image, "mask": mask, "sigma": sigma}
    stored = {
        name: zarr.create_array(str(tmp_path / f"{name}.zarr"), data=array)
        for name, array in arrays.items()
    }
    options = {"method": "fast", "data_range": 255}
    files = {"out": tmp_path / "out.zarr", "tile": 64, "client": client}
    for name in ("mask", "sigma"):
        with pytest.raises(TypeError, match=f"{name} is in the memory of this process"):
            nlridge.denoise_to_disk(**{**stored, name: arrays[name]}, **options, **files)
    tiled = nlridge.denoise_to_disk(**stored, **options, **files)
    assert np.array_equal(tiled[:], nlridge.denoise(**arrays, **options))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fast", "standard"])
def test_dask_arrays(method):
    da = pytest.importorskip("dask.array")
    image = noisy(157, 140)
    computed = []
    chunks = da.from_array(image, chunks=(50, 60)).map_blocks(
        lambda x: computed.append(1) or x, dtype=image.dtype, meta=image[:0]
    )
    later = nlridge.prepare(chunks.astype(np.uint16), method=method, tile=64, **GIVEN).denoise()
    assert not computed
    assert (later.dtype, later.chunks) == (np.float32, chunks.chunks)
    whole = nlridge.denoise(image.astype(np.uint16), method=method, **GIVEN)
    assert np.array_equal(later.compute(), whole)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dask_arrays_of_floats_are_computed_later(value):
    da = pytest.importorskip("dask.array")
    image = noisy(150, 80)
    image[140, 3] = value
    computed = []
    chunks = da.from_array(image, chunks=(100, 80)).map_blocks(
        lambda x: computed.append(1) or x, dtype=image.dtype, meta=image[:0]
    )
    later = nlridge.prepare(chunks, method="fast", tile=64, **GIVEN).denoise()
    assert not computed
    if np.isnan(value):
        whole = nlridge.denoise(image, method="fast", **GIVEN)
        assert np.array_equal(later.compute(), whole, equal_nan=True)
    else:
        with pytest.raises(ValueError, match="image has 1 infinite pixels in rows 5 to 149"):
            later.compute(scheduler="synchronous")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda x: x, {"workers": 2}, "workers is 2; expected None for a Dask array"),
        (lambda x: x, {"tile": 3}, "tile is 3; expected at least 64"),
        (lambda x: x[x[:, 0] > 0], {}, "expected known chunk sizes"),
    ],
)
def test_dask_arrays_that_are_refused(change, options, message):
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=message):
        nlridge.prepare(change(da.from_array(noisy(70, 80))), **GIVEN, **options).denoise()


@pytest.mark.parametrize("shape", [(150, 90), (2, 150, 90)])
def test_dask_arrays_of_few_photons(shape):
    da = pytest.importorskip("dask.array")
    image = counts(*shape).astype(np.uint8)
    options = {"noise": nlridge.PoissonGaussianNoise(1.0), "method": "fast"}
    if len(shape) == 3:
        options["channel_axis"] = 0
    later = nlridge.prepare(da.from_array(image, chunks=60), tile=64, **options).denoise()
    assert np.array_equal(later.compute(), nlridge.denoise(image, **options))


@pytest.mark.slow
def test_dask_arrays_of_channels_and_stacks():
    da = pytest.importorskip("dask.array")
    image = noisy(90, 80, 2, 3)
    options = {"stack_axis": 0, "channel_axis": 1, "method": "fast"}
    later = nlridge.prepare(da.from_array(image), tile=64, **options).denoise()
    assert np.array_equal(later.compute(scheduler="synchronous"), nlridge.denoise(image, **options))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=2,
            processes=True,
            dashboard_address=":0",
            memory_limit=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.long
@kills
def test_a_cluster_that_loses_a_worker(client, tmp_path):
    image = noisy(230, 140)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    workers = client.run(os.getpid)
    threads = []

    def kill(done, total):
        if done in (4, 8, 12):
            threads.extend(client.run(_names_of_threads).values())
        if done == 14:
            os.kill(next(iter(workers.values())), signal.SIGKILL)

    out = nlridge.denoise_to_disk(
        source, tmp_path / "out.zarr", **GIVEN, tile=64, client=client, progress=kill
    )
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))
    assert client.run(os.getpid) != workers
    # A worker of two threads does two bands at a time, each with one: the engine started none of its own (and
    # "nlridge-disk" only waits).
    assert threads
    for names in threads:
        assert sum(name.startswith("Dask-Worker-Threads") for name in names) <= 2
        assert not any(name.startswith("nlridge_") for name in names)


@pytest.mark.long
def test_a_cluster_that_is_restarted(client, tmp_path):
    """All workers, and what the scheduler knew: a refusal, and the same bits when the run is continued."""
    image = noisy(230, 140)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    ticks = []

    def restart(done, total):
        ticks.append(done)
        if len(ticks) == 9:
            client.restart()

    whole = {**GIVEN, "tile": 64, "client": client, "progress": restart}
    with pytest.raises(ConnectionError, match=r"the cluster was restarted.*run it again to resume"):
        nlridge.denoise_to_disk(source, tmp_path / "out.zarr", **whole)
    assert kept(tmp_path)
    first = len(ticks)
    out = nlridge.denoise_to_disk(source, tmp_path / "out.zarr", **whole)
    assert len(ticks) - first < ticks[-1]  # what was done before is not done again
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))


def _names_of_threads():
    return [thread.name for thread in threading.enumerate()]


CLIENT = """
import os, signal, sys
import nlridge, zarr
from distributed import Client

def die(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

address, folder = sys.argv[1:3]
nlridge.denoise_to_disk(
    zarr.open_array(folder + "/in.zarr", mode="r"), folder + "/out.zarr", 20, data_range=255, tile=64,
    client=Client(address), progress=die,
)
"""


@pytest.mark.long
@kills
@pytest.mark.parametrize("when", [9, -2])
def test_a_cluster_that_loses_its_client(when, client, tmp_path):
    """In the middle, or while the result is written; another client resumes the run."""
    image = noisy(230, 140)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    ticks = []
    whole = {**GIVEN, "tile": 64, "client": client, "progress": lambda *tick: ticks.append(tick)}
    nlridge.denoise_to_disk(source, tmp_path / "before.zarr", **whole)
    last = ticks[-1][1] + 1
    killed = subprocess.run(
        [sys.executable, "-c", CLIENT, client.scheduler.address, str(tmp_path), str(when % last)],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out.zarr").exists()
    assert kept(tmp_path)
    out = nlridge.denoise_to_disk(source, tmp_path / "out.zarr", **whole)
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "before.zarr",
        "in.zarr",
        "out.zarr",
    ]


@pytest.mark.long
def test_workers_that_cannot_find_the_image(client, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    client.run(os.chdir, str(elsewhere))
    monkeypatch.chdir(tmp_path)
    image = noisy(70, 80)
    zarr.create_array("in.zarr", data=image, chunks=(64, 64))
    given = {**GIVEN, "method": "fast", "out": "out.zarr", "tile": 64, "client": client}
    with pytest.raises(ValueError, match=r"worker .* cannot read the image"):
        nlridge.denoise_to_disk(zarr.open_array("in.zarr", mode="r"), **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "in.zarr"]
    out = nlridge.denoise_to_disk(zarr.open_array(tmp_path / "in.zarr", mode="r"), **given)
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN, method="fast"))
    with pytest.raises(TypeError, match=r"client is 5; expected a distributed\.Client"):
        nlridge.denoise_to_disk(out, **{**given, "client": 5, "out": "other.zarr"})


@pytest.mark.long
def test_the_command_line_on_a_cluster(client, tmp_path, capsys):
    image = noisy(150, 140)
    zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    address = client.scheduler_info()["address"]
    options = ["--scheduler", address, "--method", "fast", "--sigma", "20", "--tile", "64"]
    assert (
        main(["denoise", str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), *options])
        == 0
    )
    out = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert np.array_equal(out[:], nlridge.denoise(image, 20, method="fast"))


@pytest.mark.long
def test_errors_on_a_cluster_are_raised_here(client):
    with pytest.raises(ZeroDivisionError):
        Cluster(client).run_bands(_fail, [0, 1], lambda: None)


def _fail(numbers, workers):
    yield numbers[0] // 0
