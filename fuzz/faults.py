"""Kill a run, or fill the disk, at every write, rename, sync and removal.

    python -m fuzz.faults [--every N] [--only NAME]

Each operation on files is a point. For each point of each scenario, a process runs up to it and stops there; then the
same call is made again. Under the final name there may never be anything but a whole result, and in the end there must
be the same files, to the bit, as without a fault, and no others.
"""

import argparse
import builtins
import errno
import io
import os
import shutil
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tifffile  # noqa: F401 (imported once, not in each process)
import zarr

import nlridge
from nlridge import atomic
from nlridge.apps.jobs.pictures import clean_file
from nlridge.apps.jobs.tiled import clean_tiled
from nlridge.apps.pages import report

_KILLED, _FULL, _REFUSED, _WRONG = 71, 72, 73, 74  # exit codes

_IMAGE = np.clip(np.random.default_rng(0).normal(100, 20, (90, 70)), 0, 255).astype(np.uint8)
_GIVEN: dict[str, Any] = {"sigma": 20.0, "method": "fast", "strength": 1.0, "workers": 1}


# What is done in each scenario.


def _tiled(folder: Path, suffix: str, source: str = "in.npy") -> None:
    given = {
        **_GIVEN,
        "overwrite": True,
        "axes": None,
        "frames": "independent",
        "noise": None,
        "tile": 64,
    }
    clean_tiled(folder / source, folder / f"out{suffix}", scheduler=None, progress=False, **given)


def _tiled_by_function(folder: Path) -> None:
    """By `denoise`, which refuses to overwrite a result."""
    nlridge.denoise_to_disk(
        np.load(folder / "in.npy"), folder / "out.zarr", 20, method="fast", workers=1, tile=64
    )


def _with_mask_and_map(folder: Path) -> None:
    """Some pixels are missing, and take their values from the pilot in the second step."""
    image = np.load(folder / "in.npy")
    sigma = np.where(image > 150, 200.0, 20.0)
    nlridge.denoise_to_disk(
        image, folder / "out.npy", sigma, mask=image < 60, method="fast", workers=1, tile=64
    )


def _without_exchange(folder: Path) -> None:
    """As on a system that cannot exchange two folders in one operation."""
    atomic.sys = types.SimpleNamespace(platform="another")  # type: ignore[assignment]
    _tiled(folder, ".zarr")


def _ordinary(folder: Path, suffix: str) -> None:
    given = {**_GIVEN, "overwrite": True, "axes": None, "noise": None}
    clean_file(
        folder / "in.npy",
        folder / f"out{suffix}",
        frames="auto",
        progress=lambda share: None,
        **given,
    )


def _report(folder: Path) -> None:
    report.datetime = types.SimpleNamespace(now=lambda: datetime(2000, 1, 1))
    with report.page_at(folder / "out.html"):
        pass


def _pyramid(folder: Path) -> None:
    datasets = [{"path": "0"}, {"path": "1"}]
    scales = [{"axes": [{"name": "y"}, {"name": "x"}], "datasets": datasets}]
    group = zarr.create_group(folder / "in.zarr", attributes={"ome": {"multiscales": scales}})
    group.create_array("0", data=_IMAGE, chunks=(64, 64))
    group.create_array("1", data=_IMAGE[::2, ::2], chunks=(64, 64))


class Scenario(NamedTuple):
    """What is done in a folder, and what may be seen there if it is stopped."""

    work: Callable[[Path], None]
    older: bool = False
    """Whether it replaces a result."""
    prepare: Callable[[Path], None] = lambda folder: None
    """What is needed besides in.npy."""
    may_be_absent: bool = False
    """Whether there may be no result at all for a moment; the next run puts that right."""


SCENARIOS = {
    "tiled NPY": Scenario(partial(_tiled, suffix=".npy")),
    "tiled Zarr": Scenario(_tiled_by_function),
    "tiled NPY with a mask and a map": Scenario(_with_mask_and_map),
    "tiled OME-Zarr": Scenario(partial(_tiled, suffix=".zarr", source="in.zarr"), prepare=_pyramid),
    "tiled Zarr over another": Scenario(partial(_tiled, suffix=".zarr"), older=True),
    "tiled Zarr over another, without exchange": Scenario(
        _without_exchange, older=True, may_be_absent=True
    ),
    "tiled TIFF over another": Scenario(partial(_tiled, suffix=".tif"), older=True),
    "PNG over another": Scenario(partial(_ordinary, suffix=".png"), older=True),
    "TIFF": Scenario(partial(_ordinary, suffix=".tif")),
    "NPY": Scenario(partial(_ordinary, suffix=".npy")),
    "report": Scenario(_report),
}


class Faults:
    """Counts the operations on files, and stops the process at one of them."""

    def __init__(self, stop: int, how: str) -> None:
        self.stop, self.how, self.count = stop, how, 0

    def point(self, halfway: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count == self.stop:
            if self.how == "kill":
                halfway()
                os._exit(_KILLED)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def install(self) -> None:
        """Watch all operations of this process from now on."""
        faults = self

        class File(io.FileIO):
            def write(self, data: Any) -> Any:
                view = memoryview(data).cast("B")
                faults.point(lambda: io.FileIO.write(self, view[: len(view) // 2]))
                return super().write(view)

        plain = io.open

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not set(mode) & set("wxa+"):
                return plain(file, mode, *arguments, **options)
            faults.point()
            raw = File(file, mode.replace("b", "").replace("t", ""))
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered)

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"):
                faults.point()

        exchange, allocate = atomic._exchange, os.posix_fallocate
        builtins.open = io.open = opened
        sys.addaudithook(audit)
        os.fsync = lambda file: faults.point()
        os.sync = faults.point
        os.posix_fallocate = lambda *place: (faults.point(), allocate(*place))[1]
        atomic._exchange = lambda *paths: (faults.point(), exchange(*paths))[1]


def _in_a_child(work: Callable[[], None]) -> int:
    """The exit code of a process that does the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except FileExistsError:
            os._exit(_REFUSED)
        except OSError as error:
            os._exit(_FULL if "\n" not in str(error) else _WRONG)
        except BaseException:
            traceback.print_exc()
            os._exit(_WRONG)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _files(folder: Path) -> dict[str, bytes]:
    """The bytes of all files but the input, by their names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in ("in.npy", "in.zarr")
    }


def _results(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in _files(folder).items() if name.startswith("out")}


def _prepare(folder: Path, scenario: Scenario) -> None:
    """Make the input, and the result of another image if the scenario replaces one."""
    folder.mkdir()
    if scenario.older:
        np.save(folder / "in.npy", 255 - _IMAGE)
        assert _in_a_child(lambda: scenario.work(folder)) == 0
    np.save(folder / "in.npy", _IMAGE)
    assert _in_a_child(lambda: scenario.prepare(folder)) == 0


def _stopped(scenario: Scenario, folder: Path, point: int, how: str) -> int:
    """The exit code of the work with a fault at a point, or without any if `point` is negative."""

    def work() -> None:
        Faults(point, how).install()
        scenario.work(folder)

    return _in_a_child(work)


def _count(folder: Path, work: Callable[[Path], None]) -> int:
    """The number of points of the work, by a process that is not stopped."""
    read, write = os.pipe()

    def counted() -> None:
        faults = Faults(-1, "")
        faults.install()
        work(folder)
        os.write(write, str(faults.count).encode())

    assert _in_a_child(counted) == 0
    os.close(write)
    with open(read) as file:
        return int(file.read())


def check(name: str, every: int) -> int:
    """Try every point of a scenario, or every N-th, and return the number of faults."""
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as place:
        start, whole = Path(place, "start"), Path(place, "whole")
        _prepare(start, scenario)
        shutil.copytree(start, whole)
        points = _count(whole, scenario.work)
        before, after = _files(start), _files(whole)
        expected = [before, after, {}] if scenario.may_be_absent else [before, after]
        names = {path.name for path in whole.iterdir()}
        faults = silent = 0
        for how in ("kill", "full disk"):
            for point in range(1, points + 1, every):
                where = f"{name}: {how} at point {point} of {points}"
                folder = Path(place, "run")
                shutil.copytree(start, folder)
                ended = _stopped(scenario, folder, point, how)
                # A run may take fewer steps than were counted, because of its threads, and some faults
                # have no consequence, such as one in the sync of a folder.
                assert ended in (_KILLED if how == "kill" else _FULL, 0), f"{where}: {ended}"
                assert _results(folder) in expected, f"{where}: half a result"
                again = _stopped(scenario, folder, -1, how)
                assert again in (0, _REFUSED), f"{where}: then {again}"
                assert _files(folder) == after, f"{where}: {sorted(_files(folder))}"
                assert {path.name for path in folder.iterdir()} == names, f"{where}: leftovers"
                shutil.rmtree(folder)
                faults += 1
                silent += ended == 0
    print(f"{name}: {points} points, {faults} faults, {silent} without consequence", flush=True)
    return faults


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--every", type=int, default=1, metavar="N", help="try every N-th point only"
    )
    options.add_argument("--only", choices=SCENARIOS, help="try this scenario only")
    given = options.parse_args()
    nlridge.denoise(_IMAGE, 20, method="fast")  # compile the kernels before anything is counted
    names = [given.only] if given.only else list(SCENARIOS)
    print(f"{sum(check(name, given.every) for name in names)} faults in all")


if __name__ == "__main__":
    main()
