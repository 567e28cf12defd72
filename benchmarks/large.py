"""An image larger than memory should be: megapixels a second, peak memory, seams, and how it scales with workers."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nlridge

from .images import BUNDLED

SIGMA = 25.0  # of the noise, on the scale of 0 to 255; pixels are 64 times that
SIDE = 2048  # of what is denoised in memory, to compare with


def add_arguments(parser):
    parser.add_argument("--huge", type=int, default=20000, help="side of the image in Zarr")
    parser.add_argument("--huge-method", default="fast")
    parser.add_argument("--huge-tile", type=int, default=2048)
    parser.add_argument("--scaling", type=int, default=8192, help="side for one worker and two")
    parser.add_argument("--scaling-tile", type=int, default=1024)


def run(options):
    settings = {"sigma": 64 * SIGMA, "data_range": 64 * 255, "method": options.huge_method}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        folder = Path(folder)
        image = make(folder / "noisy.zarr", options.huge)
        part = image[:SIDE, :SIDE]
        nlridge.denoise(part[:64, :64], **settings)
        seconds = [timed(lambda: nlridge.denoise(part, workers=2, **settings))[1]]
        print(f"\n{options.huge_method}: {options.huge} x {options.huge} uint16 in Zarr, "
              f"tiles of {options.huge_tile}, two threads")  # fmt: skip
        result, found = in_one_process(folder, options.huge_tile, settings)
        seconds.append(timed(lambda: nlridge.denoise(part, workers=2, **settings))[1])
        rate, in_memory = image.size / 1e6 / found["seconds"], part.size / 1e6 / np.mean(seconds)
        print(f"  in memory, {SIDE} x {SIDE}: {in_memory:.2f} MP/s (before and after)")
        print(f"  {found['seconds']:.0f} s, {rate:.2f} MP/s, {100 * rate / in_memory:.0f} % of that; "
              f"peak memory {found['megabytes']:.0f} MB", flush=True)  # fmt: skip
        compare(image, result, settings)
        scaling(image, folder, settings, options)


ALONE = """
import json, sys, time
import zarr, nlridge
folder, tile, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
image = zarr.open_array(folder + "/noisy.zarr", mode="r")
nlridge.denoise(image[:64, :64], **settings)
start = time.perf_counter()
nlridge.denoise(image, out=folder + "/clean.zarr", tile=tile, workers=2, **settings)
seconds = time.perf_counter() - start
peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
print(seconds, int(peak) * 1024 / 1e6)
"""


def in_one_process(folder, tile, settings):
    """The result by two threads of a new process, and what it took."""
    import zarr

    command = [sys.executable, "-c", ALONE, str(folder), str(tile), json.dumps(settings)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    clean = zarr.open_array(folder / "clean.zarr", mode="r")
    return clean, dict(zip(("seconds", "megabytes"), map(float, done.stdout.split()), strict=True))


def make(path, side):
    """Real textures, turned and side by side, with noise."""
    import zarr
    from skimage import data

    textures = [np.asarray(getattr(data, name)(), np.float32) for name in BUNDLED]
    textures = [texture[:512, :512] for texture in textures if min(texture.shape) >= 512]
    rng = np.random.default_rng(0)
    image = zarr.create_array(str(path), shape=(side, side), chunks=(1024, 1024), dtype="uint16")
    for top in range(0, side, 1024):
        rows = []
        for _ in range(2):
            some = [
                np.rot90(textures[rng.integers(len(textures))], rng.integers(4))
                for _ in range(-(-side // 512))
            ]
            rows.append(np.concatenate(some, axis=1)[:, :side])
        band = np.concatenate(rows)[: side - top]
        noisy = 64 * (band + rng.normal(0, SIGMA, band.shape)) + 8192
        image[top : top + len(band)] = np.clip(np.rint(noisy), 0, 65535).astype(np.uint16)
    return zarr.open_array(path, mode="r")


def compare(image, result, settings):
    """The upper left corner, denoised in one go: apart from its lower and right margin it has to be the same."""
    side = min(4096, *image.shape)
    margin = 400 if side < image.shape[0] else 0  # more than all steps together reach
    whole = nlridge.denoise(image[: side + margin, : side + margin], **settings)[:side, :side]
    difference = np.abs(whole - result[:side, :side]).max()
    print(f"  largest difference from the result in memory, {side} x {side}: {difference:g}")


# Scaling.


def scaling(image, folder, settings, options):
    """One worker process and two, and what one predicts for two and for many."""
    import zarr

    side, tile = min(options.scaling, image.shape[0]), options.scaling_tile
    part = zarr.create_array(str(folder / "part.zarr"), data=image[:side, :side], chunks=(1024, 1024))  # fmt: skip
    print(
        f"{options.huge_method}: {side} x {side}, tiles of {tile}, worker processes of one thread"
    )
    one, alone, found = on_workers(part, folder, 1, tile, settings)
    two, together, both = on_workers(part, folder, 2, tile, settings)
    print(f"  one and two give the same: {np.array_equal(one[:], two[:])}")
    stages = [[end - start for start, end in stage] for stage in found["stages"]]
    bands, work = -(-side // tile), sum(map(sum, stages))
    overhead = (alone - work) / len(stages)
    print(f"  one worker: {len(stages)} stages of up to {bands} bands, {work:.1f} s of tasks, "
          f"{1000 * overhead:.0f} ms between stages, {found['bytes'] / side**2:.0f} bytes read and written a pixel")  # fmt: skip
    print(f"  two workers by the model: {modelled(stages, 2, overhead):.1f} s, measured {together:.1f} s, "
          f"efficiency {50 * alone / together:.0f} % (model {50 * alone / modelled(stages, 2, overhead):.0f} %; "
          f"by the time of processors {100 * found['cpu'] / both['cpu']:.0f} %), "
          f"peak memory {both['megabytes']:.0f} MB", flush=True)  # fmt: skip
    for rows in (options.huge, 5 * options.huge):
        many(stages, bands, overhead, found["bytes"] / side**2, options.huge / side, rows, options)


def modelled(stages, workers, overhead):
    """Seconds: tasks of a stage go to workers as they come, and a stage begins when the one before is done."""
    seconds = 0.0
    for tasks in stages:
        free = [0.0] * workers
        for task in tasks:
            free[free.index(min(free))] += task
        seconds += max(free) + overhead
    return seconds


def many(stages, bands, overhead, bytes_a_pixel, wider, rows, options):
    """What the model says of more workers, for a wider image of as many rows and of the same tiles."""
    tile, size = options.scaling_tile, rows * options.huge
    larger = []
    for tasks in stages:  # those at half the size have half the bands
        count = max(1, round(len(tasks) / bands * rows / tile))
        larger.append([wider * float(np.mean(tasks))] * count)
    alone = modelled(larger, 1, overhead)
    print(f"  model, {rows} rows of {options.huge} pixels in bands of {tile}:")
    for workers in (1, 8, 16, 32, 64, 128):
        seconds = modelled(larger, workers, overhead)
        print(f"    {workers:4d} workers {seconds:8.1f} s, efficiency {100 * alone / seconds / workers:3.0f} %, "
              f"{size * bytes_a_pixel / seconds / 1e6:6.0f} MB/s of the file system")  # fmt: skip


def on_workers(image, folder, workers, tile, settings):
    """The result by some worker processes, the seconds, and what workers say of it."""
    from distributed import Client, LocalCluster, get_task_stream

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as local,
        Client(local) as client,
    ):  # fmt: skip
        client.run(nlridge.denoise, image[:64, :64], **settings)  # loads the kernels
        before, out = client.run(used), folder / f"{workers}-{image.shape[0]}.zarr"
        with get_task_stream(client) as stream:
            start = time.perf_counter()
            result = nlridge.denoise(image, out=out, tile=tile, client=client, **settings)
            seconds = time.perf_counter() - start
        after = client.run(used)
    spent = {key: sum(after[w][key] - before[w][key] for w in after) for key in ("cpu", "bytes")}
    peak = sum(after[w]["megabytes"] for w in after)
    return result, seconds, {**spent, "megabytes": peak, "stages": stages_of(stream.data)}


def stages_of(stream):
    """[(start, end) of each task] of each stage, from Dask's record: those of a stage were sent together."""
    found = {}
    for task in stream:
        spans = [s for s in task["startstops"] if s["action"] == "compute"]
        name = task["key"].rsplit("-", 1)[0] if isinstance(task["key"], str) else task["key"][0]
        found.setdefault(name, []).append((spans[0]["start"], spans[0]["stop"]))
    return [sorted(tasks) for tasks in sorted(found.values(), key=min)]


def used():
    """By this process so far: time of processors, bytes read and written, and the peak of its memory."""
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    lines = Path("/proc/self/io").read_text().splitlines()
    counts = {name: int(number) for name, number in (line.split(":") for line in lines)}
    return {
        "cpu": time.process_time(),
        "bytes": counts["rchar"] + counts["wchar"],
        "megabytes": int(peak) * 1024 / 1e6,
    }


def timed(call):
    """What is called, and how long it takes."""
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start
