"""Search for files that break a reader, guided by the code that they reach: ``python -m fuzz.guided --seconds 600``.

It needs Atheris (``pip install atheris``), which sees the code in Python: that of this package and of the libraries
that read files. Each reader runs in a process of its own, for the same time, and starts from intact files. What is wrong
is judged as in `fuzz.harness`; a crash, a file that takes longer than `_SECONDS` and one that takes more than `_MEMORY`
end the process, which is started again. The files that did it are kept in a folder, by default `fuzz-finds`.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

_SECONDS = 20  # for one file
_MEMORY = 2048  # MB of the process
_SEEDS = 400  # intact files to choose from, of all formats
_MOST = 20  # of each reader
_LIBRARIES = (
    "nlridge.files", "tifffile", "PIL", "astropy.io.fits", "nibabel", "pydicom", "mrcfile", "czifile", "liffile", "nd2",
)  # fmt: skip


def seeds() -> dict[str, list[tuple[str, bytes]]]:
    """Return intact files by the name of the module that reads them, each with its suffix."""
    import numpy as np

    from nlridge.files import Layer, Picture, suffixes, write

    from .intact_files import intact_file

    found: dict[str, list[tuple[str, bytes]]] = {}
    for seed in range(_SEEDS):
        suffix, data = intact_file(np.random.default_rng(seed))
        found.setdefault(_reader_of(suffix), []).append((suffix, data))
    pixels = np.random.default_rng(0).integers(0, 255, (16, 24, 3), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in suffixes():  # formats that `intact_file` does not make
            reader = _reader_of(suffix)
            if reader not in found:
                path = Path(folder) / f"seed{suffix}"
                try:
                    write(path, Picture("", [Layer(pixels, "YXC")]))
                except (ValueError, ImportError):
                    continue
                found[reader] = [(suffix, path.read_bytes())]
    found["raw"] = [(".dng", _dng())]
    return {reader: files[:_MOST] for reader, files in sorted(found.items())}


def _reader_of(suffix: str) -> str:
    from nlridge.files import _formats

    return _formats()[suffix].__name__.rpartition(".")[2]


def _dng() -> bytes:
    import numpy as np

    from nlridge.files.dng import RawFile, camera_tags, dng_bytes, raw_tags

    values = np.random.default_rng(0).integers(600, 9000, (24, 32)).astype(np.uint16)
    tags = [*camera_tags("<", np.eye(3), (2.0, 1.0, 1.6), b"A maker A model")]
    area = (0, 0, 24, 32)
    of_raw = raw_tags("<", "RGGB", [512] * 4, 16383, area, area)
    return dng_bytes(RawFile(values, area, "<", tags, of_raw), np.zeros((8, 8, 3), np.uint8))


def search(reader: str, corpus: Path, finds: Path, seconds: int) -> None:
    """Search for files that break one reader; ends the process."""
    import atheris

    seed = next(corpus.iterdir())
    with atheris.instrument_imports(include=list(_LIBRARIES)):
        from nlridge.files import read

        with contextlib.suppress(ValueError):
            read(seed)  # which imports its library
    from .damaged_files import with_checksums
    from .harness import BROKEN, UGLY, judged, raise_statements

    suffix = seed.name.partition(".")[2]
    raise_statements()
    path = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)) / f"file.{suffix}"  # fmt: skip
    known: set[str] = set()

    def once(data: bytes) -> None:
        path.write_bytes(with_checksums(data) if reader == "png" else data)
        error: BaseException | None = None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                read(path)
            except Exception as caught:
                error = caught
        verdict, reason = judged(error, [str(warning.message) for warning in warned])
        place = re.sub(r"\d+", "0", reason)
        if verdict in (UGLY, BROKEN) and place not in known:
            known.add(place)
            (finds / f"{reader}-{verdict}-{len(known)}.{suffix}").write_bytes(path.read_bytes())
            print(f"find: {reader}: {verdict}: {reason}", flush=True)

    options = [
        f"-max_total_time={seconds}", f"-timeout={_SECONDS}", f"-rss_limit_mb={_MEMORY}", "-print_final_stats=1",
        f"-malloc_limit_mb={_MEMORY}", "-max_len=20000", f"-artifact_prefix={finds}/{reader}-", "-verbosity=0", str(corpus),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], once)
    atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.guided", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="for all readers (default: 600)")
    parser.add_argument("--only", nargs="+", help="readers, by the names of their modules")
    parser.add_argument("--finds", type=Path, default=Path("fuzz-finds"), help="folder for files")
    parser.add_argument("--search", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.search:
        reader, corpus = chosen.search
        search(reader, Path(corpus), chosen.finds, chosen.seconds)
    files = {reader: known for reader, known in seeds().items() if reader in (chosen.only or [reader])}  # fmt: skip
    chosen.finds.mkdir(parents=True, exist_ok=True)
    cases, ends = 0, 0
    for reader, known in files.items():
        with tempfile.TemporaryDirectory() as folder:
            common = known[0][0]
            for k, (suffix, data) in enumerate(known):
                if suffix == common:
                    (Path(folder) / f"{k}{common}").write_bytes(data)
            done, stopped = _searched(reader, folder, chosen.finds, chosen.seconds // len(files))
        cases, ends = cases + done, ends + stopped
        print(f"{reader}: {done} files, {stopped} crashes, hangs or too much memory", flush=True)
    left = sorted(file.name for file in chosen.finds.iterdir())
    print(f"{cases} files of {len(files)} readers; {len(left)} finds: {', '.join(left) or 'none'}")
    return int(bool(left))


def _searched(reader: str, corpus: str, finds: Path, seconds: int) -> tuple[int, int]:
    """Search in processes, one after the other, for this time; returns the numbers of files and of processes that died."""
    until, cases, ends = time.monotonic() + seconds, 0, 0
    while (left := int(until - time.monotonic())) > 0:
        command = [sys.executable, "-m", "fuzz.guided", "--search", reader, corpus, "--finds", str(finds), "--seconds", str(left)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env={**os.environ, "PYTHONUNBUFFERED": "1"})  # fmt: skip
        output = done.stdout + done.stderr
        print(*re.findall(r"^find: .*$", output, re.MULTILINE), sep="\n", end="")
        numbers = re.findall(r"number_of_executed_units: (\d+)", output)
        cases += sum(map(int, numbers))
        if done.returncode:
            ends += 1
            print(f"{reader}: {'; '.join(output.strip().splitlines()[-3:])}", flush=True)
        if not numbers and not done.returncode:
            break
        if not numbers and "libFuzzer" not in output:  # it did not even begin
            raise SystemExit(output[-2000:])
    return cases, ends


if __name__ == "__main__":
    sys.exit(main())
