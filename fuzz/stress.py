"""Load and faults, for as long as is asked: ``python -m fuzz.stress studio --seconds 3600``, ``batch`` and ``cluster``.

- ``studio``: several pages upload, change settings while work is under way, look, save and close, and some upload what
  is no image. Every error must be a sentence, every request answered, every saved image whole, and memory bounded.
  An answer that takes too long comes with the share of a processor that the studio had meanwhile. With
  ``--disk``, a folder on a small disk of its own, that disk is full half of the time.
- ``batch``: a folder of small files, some of them damaged, is denoised by a process that is killed again and again. In the
  end, every good file must have been done once, and every bad one must be named.
- ``cluster``: one of three workers of Dask is killed in mid-run, or all of them are restarted. The
  results must have the same bits as without faults.
"""

import argparse
import contextlib
import http.client
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

_PATIENCE = 120  # seconds to an answer, and
_COLD = 3600  # to the first ones, for which kernels are compiled
_TURN = 60  # half seconds in which the disk is full, and is not


def _png(seed: int, side: int) -> bytes:
    y, x = np.mgrid[:side, :side]
    noise = np.random.default_rng(seed).normal(0, 15, (side, side))
    pixels = np.clip(120 + 60 * np.sin(x / 9) * np.cos(y / 7) + noise, 0, 255).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


# The studio.


@dataclass
class _Found:
    """What all pages have met."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)
    """The longest time to an answer, by kinds of requests."""
    server: int = 0
    """The number of the process that answers."""

    def say(self, wrong: str) -> None:
        """Note what is wrong, and print it at once."""
        self.wrong.append(wrong)
        print(f"{datetime.now():%H:%M:%S} wrong: {wrong}", flush=True)


class _Page:
    """A page that does what people do, at random."""

    def __init__(self, host: str, cookie: str, seed: int, pause: float, found: _Found):
        self.host, self.cookie, self.pause, self.found = host, cookie, pause, found
        self.random = random.Random(seed)
        self.patience = _PATIENCE

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Cookie": self.cookie, "Origin": f"http://{self.host}", "X-Nlridge": "1"}
        connection = http.client.HTTPConnection(self.host, timeout=self.patience)
        counts, slowest = self.found.counts, self.found.slowest
        kind = f"{method} {re.sub('^/api/images/[^/]*/?', '', path.partition('?')[0])}"
        start, worked = time.monotonic(), _worked(self.found.server)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:  # on a busy machine, the studio may have had no time
            share = (_worked(self.found.server) - worked) / (time.monotonic() - start)
            raise OSError(f"{method} {path}: {error!r}; {share:.1%} of a processor") from error
        finally:
            connection.close()
        counts["requests"] += 1
        slowest[kind] = max(slowest.get(kind, 0.0), time.monotonic() - start)
        if answer.status >= 400:
            counts[f"status {answer.status}"] += 1
            try:
                sentence = json.loads(content)["error"]
            except (ValueError, KeyError):
                sentence = ""
            if not sentence or "\n" in sentence or "Traceback" in sentence:
                self.found.say(f"{method} {path}: {answer.status} {content[:200]!r}")
            elif answer.status >= 500 or "space" in sentence:
                counts[sentence[:90]] += 1
        return answer.status, content

    def warm_up(self) -> None:
        """Wait for results of both methods, however busy the machine is."""
        self.patience = _COLD
        image = json.loads(self.send("POST", "/api/images?name=page.png", _png(0, 160))[1])
        for method in ("fast", "standard"):
            self.send("PUT", f"/api/images/{image['id']}/settings", {"method": method})
            self.send("POST", f"/api/images/{image['id']}/save", {"where": "download"})
        self.send("DELETE", f"/api/images/{image['id']}")

    def live(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                self.visit()
            except Exception as error:
                self.found.say(f"{error!r}")
            time.sleep(self.pause * 2 * self.random.random())

    def visit(self) -> None:
        chance = self.random.random
        side = self.random.choice([24, 64, 160])
        data = _png(self.random.randrange(1000), side)
        if chance() < 0.1:
            data = data[: self.random.randrange(len(data))]
        status, content = self.send("POST", "/api/images?name=page.png", data)
        if status != 200:
            return
        image = json.loads(content)
        path = f"/api/images/{image['id']}"
        for _ in range(self.random.randrange(1, 5)):  # each change cancels what is under way
            method = self.random.choice(["fast", "standard"])
            self.send("PUT", f"{path}/settings", {"method": method, "strength": 0.5 + chance()})
            view = {"frame": 0, "x": 0, "y": 0, "width": side, "height": side, "scale": 1}
            self.send("PUT", f"{path}/view", view)
            self.send("GET", f"{path}/tile/after/1/0/0/0")
            time.sleep(0.2 * chance())
        if chance() < 0.5:
            status, content = self.send("POST", f"{path}/save", {"where": "download"})
            if status == 200:
                self.found.counts["saved"] += 1
                with Image.open(io.BytesIO(content)) as saved:
                    if np.asarray(saved).shape != (side, side):
                        self.found.say(f"a saved image has another shape: {saved.size}")
        self.send("DELETE", path)


def _memory(process: int) -> float:
    """The memory of a process and of its children, in MB."""
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        if int(fields["Pid"]) == process or int(fields["PPid"]) == process:
            total += int(fields.get("VmRSS", "0 kB").split()[0]) / 1024
    return total


def _worked(process: int) -> float:
    """The seconds of the processor that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def studio(options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "nlridge", "studio", "--no-browser"]
    own = {"TMPDIR": str(options.disk.resolve())} if options.disk else {}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **own},
    ) as server:
        assert server.stdout is not None
        printed: list[str] = []
        while not (words := [w for w in "".join(printed).split() if "?token=" in w]):
            printed.append(server.stdout.readline() or sys.exit("the studio did not start"))
        reader = threading.Thread(target=lambda: printed.extend(server.stdout or ()), daemon=True)
        reader.start()
        parts = urlsplit(words[0])
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        connection.request("GET", f"/?{parts.query}")
        cookie = (connection.getresponse().getheader("set-cookie") or "").split(";")[0]
        _Page(parts.netloc, cookie, 0, 0.0, _Found(server=server.pid)).warm_up()
        found = _Found(server=server.pid)
        until = time.monotonic() + options.seconds
        pages = [_Page(parts.netloc, cookie, k, options.pause, found) for k in range(options.pages)]
        threads = [threading.Thread(target=page.live, args=(until,)) for page in pages]
        for thread in threads:
            thread.start()
        memory, filler = [], options.disk and options.disk / "filler"
        while any(thread.is_alive() for thread in threads):
            memory.append(_memory(server.pid))
            if filler:
                _fill(filler, len(memory) % _TURN < _TURN / 2)
            time.sleep(0.5)
        server.send_signal(signal.SIGINT)
    seconds, wrong = _processor_seconds(), found.wrong
    quarter = max(len(memory) // 4, 1)
    print(dict(found.counts))
    print("longest waits:", ", ".join(f"{kind} {s:.1f} s" for kind, s in found.slowest.items()))
    print(f"memory: peak {max(memory):.0f} MB; second quarter {max(memory[quarter : 2 * quarter], default=0):.0f}, last {max(memory[-quarter:]):.0f} MB; {seconds:.0f} s of the processor")  # fmt: skip
    if any("Traceback" in line for line in printed):
        wrong.append("the studio printed a traceback: " + "".join(printed)[-2000:])
    if filler:
        filler.unlink(missing_ok=True)
        wrong += [f"left on the disk: {path.name}" for path in options.disk.iterdir()]
    print(f"{options.pages} pages, {options.seconds:g} s: {len(wrong)} wrong", *wrong[:5], sep="\n")
    return int(bool(wrong))


def _fill(file: Path, full: bool) -> None:
    """Fill the rest of a disk with a file, or remove that file."""
    if not full:
        file.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError), file.open("ab", buffering=0) as filler:
        for length in (2**20, 2**12):
            while filler.write(bytes(length)) == length:
                pass


def _processor_seconds() -> float:
    """What this process and those that it has waited for have taken."""
    return sum(os.times()[:4])


# A batch.


def batch(options: argparse.Namespace) -> int:
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        given, output = Path(folder) / "in", Path(folder) / "out"
        given.mkdir()
        bad = set(rng.sample(range(options.files), max(options.files // 100, 1)))
        for k in range(options.files):
            data = _png(k, 24)
            (given / f"{k:05}.png").write_bytes(data[: len(data) // 2] if k in bad else data)
        command = [
            sys.executable, "-m", "nlridge", "denoise", str(given), "-o", str(output), "--method", "fast", "--sigma",
            "15", "--skip-existing", "--json",
        ]  # fmt: skip
        done: dict[str, tuple[int, int]] = {}
        again, kills = 0, 0
        start = time.monotonic()
        for _ in range(options.kills):
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as run:
                assert run.stdout is not None
                aim, seen = rng.randrange(1, max(options.files // options.kills, 2)), 0
                for line in run.stdout:
                    seen += b'"done"' in line
                    if seen >= aim:
                        kills += 1
                        break
                run.kill()
            again += _changed(output, done)
        last = subprocess.run(command, capture_output=True, text=True)
        again += _changed(output, done)
        lines = [json.loads(line) for line in last.stdout.splitlines()]
        named = {Path(line["input"]).name for line in lines if line["status"] == "failed"}
        expected = {f"{k:05}.png" for k in bad}
        results = {path.name for path in output.iterdir()}
        good = {f"{k:05}.png" for k in range(options.files)} - expected
        unreadable = sum(not _is_whole(output / name) for name in good & results)
        strange = sorted(results - good)
    print(f"{options.files} files, {len(bad)} damaged, killed {kills} times, {time.monotonic() - start:.0f} s: {len(good & results)} of {len(good)} done, {again} done twice, {unreadable} not whole, {len(named & expected)} of {len(expected)} damaged ones named, {len(strange)} other files {strange[:3]}")  # fmt: skip
    return int(good != results or bool(again) or bool(unreadable) or named != expected)


def _changed(folder: Path, done: dict[str, tuple[int, int]]) -> int:
    """Note the files of a folder; returns how many have been written again."""
    changed = 0
    for path in folder.glob("*.png"):
        mark = (path.stat().st_ino, path.stat().st_mtime_ns)
        changed += done.get(path.name, mark) != mark
        done[path.name] = mark
    return changed


def _is_whole(path: Path) -> bool:
    with Image.open(path) as image:
        return np.asarray(image).shape == (24, 24)


# A cluster.


def cluster(options: argparse.Namespace) -> int:
    import dask.array
    import distributed

    import nlridge

    image = np.random.default_rng(options.seed).normal(100, 20, (options.side, options.side))
    lazy = nlridge.prepare(dask.array.from_array(image, chunks=128), 20.0, method="fast", tile=128)
    graph = lazy.denoise()
    whole = np.asarray(graph.compute(scheduler="sync"))
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + options.seconds
    turn = 0
    while turn == 0 or time.monotonic() < until:
        with (
            distributed.LocalCluster(
                n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50
            ) as local,
            distributed.Client(local) as client,
        ):
            workers = list(client.run(os.getpid).values())
            future = client.compute(graph)
            time.sleep(random.Random(turn).uniform(0.0, 3.0))
            under_way = not future.done()
            if turn % 3 < 2:
                os.kill(workers[turn % 3], signal.SIGKILL)
                what = "worker killed"
            else:
                client.restart()  # all workers, and what the scheduler knows
                what = "workers restarted"
            try:
                same = bool(np.array_equal(future.result(timeout=300), whole))
                end = "same bits" if same else "WRONG BITS"
            except Exception as error:
                end = f"refused ({type(error).__name__})"
        outcomes[f"{what} {'in mid-run' if under_way else 'after the run'}: {end}"] += 1
        turn += 1
    for words, number in sorted(outcomes.items()):
        print(f"{number} x {words}")
    return int(any("WRONG" in words for words in outcomes))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.stress", description=__doc__.split("\n")[0])  # fmt: skip
    add = parser.add_argument
    add("what", choices=["studio", "batch", "cluster"])
    add("--seconds", type=float, default=60.0, help="of the studio and the cluster (default: 60)")
    add("--pages", type=int, default=10, help="of the studio (default: 10)")
    add("--pause", type=float, default=0.0, help="mean seconds that a page rests after each image")
    add("--disk", type=Path, help="an empty folder on a small disk, for the studio's files")
    add("--files", type=int, default=5000, help="of the batch (default: 5000)")
    add("--kills", type=int, default=10, help="of the batch (default: 10)")
    add("--side", type=int, default=1024, help="of the image of the cluster (default: 1024)")
    add("--seed", type=int, default=0)
    options = parser.parse_args()
    return {"studio": studio, "batch": batch, "cluster": cluster}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
