"""A very large image on disk: megapixels per second, peak memory, exactness, and scaling with the number of workers."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nlridge

from .images import BUNDLED

SIGMA = 25.0  # noise on a scale of 0 to 255; pixel values are 64 times as large
SIDE = 2048  # of the part that is denoised in memory, for comparison


def add_arguments(parser):
    parser.add_argument(
        "--huge",
        type=int,
        default=20000,
        help="side of the image on disk, in pixels (default: %(default)s)",
    )
    parser.add_argument(
        "--huge-method", default="fast", help="method for that image (default: %(default)s)"
    )
    parser.add_argument(
        "--huge-tile", type=int, default=2048, help="side of its tiles (default: %(default)s)"
    )
    parser.add_argument(
        "--scaling",
        type=int,
        default=8192,
        help="side of the image for one worker and two (default: %(default)s)",
    )
    parser.add_argument(
        "--scaling-tile", type=int, default=1024, help="side of its tiles (default: %(default)s)"
    )


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
        result, costs = in_one_process(folder, options.huge_tile, settings)
        seconds.append(timed(lambda: nlridge.denoise(part, workers=2, **settings))[1])
        rate, in_memory = image.size / 1e6 / costs["seconds"], part.size / 1e6 / np.mean(seconds)
        print(f"  in memory, {SIDE} x {SIDE}: {in_memory:.2f} MP/s (before and after)")
        print(f"  {costs['seconds']:.0f} s, {rate:.2f} MP/s, {100 * rate / in_memory:.0f} % of that; "
              f"peak memory {costs['megabytes']:.0f} MB", flush=True)  # fmt: skip
        compare(image, result, settings)
        scaling(image, folder, settings, options)


ALONE = """
import json, sys, time
import zarr, nlridge
folder, tile, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
image = zarr.open_array(folder + "/noisy.zarr", mode="r")
nlridge.denoise(image[:64, :64], **settings)
start = time.perf_counter()
nlridge.denoise_to_disk(image, folder + "/clean.zarr", tile=tile, workers=2, **settings)
seconds = time.perf_counter() - start
peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
print(seconds, int(peak) * 1024 / 1e6)
"""


def in_one_process(folder, tile, settings):
    """The result of two threads in a new process, with its time and peak memory."""
    import zarr

    command = [sys.executable, "-c", ALONE, str(folder), str(tile), json.dumps(settings)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    clean = zarr.open_array(folder / "clean.zarr", mode="r")
    return clean, dict(zip(("seconds", "megabytes"), map(float, done.stdout.split()), strict=True))


def make(path, side):
    """Create an image of real textures, rotated and side by side, with noise."""
    import zarr
    from skimage import data

    textures = [np.asarray(getattr(data, name)(), np.float32) for name in BUNDLED]
    textures = [texture[:512, :512] for texture in textures if min(texture.shape) >= 512]
    rng = np.random.default_rng(0)
    image = zarr.create_array(str(path), shape=(side, side), chunks=(1024, 1024), dtype="uint16")
    for top in range(0, side, 1024):
        rows = []
        for _ in range(2):
            row = [
                np.rot90(textures[rng.integers(len(textures))], rng.integers(4))
                for _ in range(-(-side // 512))
            ]
            rows.append(np.concatenate(row, axis=1)[:, :side])
        clean = np.concatenate(rows)[: side - top]
        noisy = 64 * (clean + rng.normal(0, SIGMA, clean.shape)) + 8192
        image[top : top + len(clean)] = np.clip(np.rint(noisy), 0, 65535).astype(np.uint16)
    return zarr.open_array(path, mode="r")


def compare(image, result, settings):
    """Compare the upper left corner with the same part denoised in memory, with a margin on the other sides."""
    side = min(4096, *image.shape)
    margin = 400 if side < image.shape[0] else 0  # more than the reach of all passes together
    whole = nlridge.denoise(image[: side + margin, : side + margin], **settings)[:side, :side]
    difference = np.abs(whole - result[:side, :side]).max()
    print(f"  largest difference from the result in memory, {side} x {side}: {difference:g}")


# Scaling.


def scaling(image, folder, settings, options):
    """Measure one worker process and two, and model larger clusters from one."""
    import zarr

    side, tile = min(options.scaling, image.shape[0]), options.scaling_tile
    part = zarr.create_array(str(folder / "part.zarr"), data=image[:side, :side], chunks=(1024, 1024))  # fmt: skip
    print(
        f"{options.huge_method}: {side} x {side}, tiles of {tile}, worker processes of one thread"
    )
    one, alone, costs = on_workers(part, folder, 1, tile, settings)
    two, together, both = on_workers(part, folder, 2, tile, settings)
    print(f"  one and two workers give the same result: {np.array_equal(one[:], two[:])}")
    stages = [[end - start for start, end in stage] for stage in costs["stages"]]
    bands, work = -(-side // tile), sum(map(sum, stages))
    overhead = (alone - work) / len(stages)
    print(f"  one worker: {len(stages)} stages of up to {bands} bands, {work:.1f} s of tasks, "
          f"{1000 * overhead:.0f} ms between stages, {costs['bytes'] / side**2:.0f} bytes read and written per pixel")  # fmt: skip
    print(f"  two workers, modelled: {modelled(stages, 2, overhead):.1f} s, measured {together:.1f} s, "
          f"efficiency {50 * alone / together:.0f} % (model {50 * alone / modelled(stages, 2, overhead):.0f} %; "
          f"by CPU time {100 * costs['cpu'] / both['cpu']:.0f} %), "
          f"peak memory {both['megabytes']:.0f} MB", flush=True)  # fmt: skip
    for rows in (options.huge, 5 * options.huge):
        many(stages, bands, overhead, costs["bytes"] / side**2, options.huge / side, rows, options)


def modelled(stages, workers, overhead):
    """Seconds if each task goes to the first free worker, and a stage starts when the previous one is done."""
    seconds = 0.0
    for tasks in stages:
        free = [0.0] * workers
        for task in tasks:
            free[free.index(min(free))] += task
        seconds += max(free) + overhead
    return seconds


def many(stages, bands, overhead, bytes_a_pixel, wider, rows, options):
    """Print the model for more workers, for a wider image with the given rows and the same tiles."""
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
              f"{size * bytes_a_pixel / seconds / 1e6:6.0f} MB/s of file system traffic")  # fmt: skip


def on_workers(image, folder, workers, tile, settings):
    """The result of some worker processes, the seconds, and the costs that workers report."""
    from distributed import Client, LocalCluster, get_task_stream

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as local,
        Client(local) as client,
    ):  # fmt: skip
        client.run(nlridge.denoise, image[:64, :64], **settings)  # loads the kernels
        before, out = client.run(used), folder / f"{workers}-{image.shape[0]}.zarr"
        with get_task_stream(client) as stream:
            start = time.perf_counter()
            result = nlridge.denoise_to_disk(image, out, tile=tile, client=client, **settings)
            seconds = time.perf_counter() - start
        after = client.run(used)
    spent = {key: sum(after[w][key] - before[w][key] for w in after) for key in ("cpu", "bytes")}
    peak = sum(after[w]["megabytes"] for w in after)
    return result, seconds, {**spent, "megabytes": peak, "stages": stages_of(stream.data)}


def stages_of(stream):
    """The (start, end) of each task, by stage, from Dask's task stream; keys of a stage share a prefix."""
    stages = {}
    for task in stream:
        spans = [s for s in task["startstops"] if s["action"] == "compute"]
        name = task["key"].rsplit("-", 1)[0] if isinstance(task["key"], str) else task["key"][0]
        stages.setdefault(name, []).append((spans[0]["start"], spans[0]["stop"]))
    return [sorted(tasks) for tasks in sorted(stages.values(), key=min)]


def used():
    """CPU time, bytes read and written, and peak memory of this process so far."""
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    lines = Path("/proc/self/io").read_text().splitlines()
    counts = {name: int(number) for name, number in (line.split(":") for line in lines)}
    return {
        "cpu": time.process_time(),
        "bytes": counts["rchar"] + counts["wchar"],
        "megabytes": int(peak) * 1024 / 1e6,
    }


def timed(call):
    """The result of a call, and its time in seconds."""
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start
