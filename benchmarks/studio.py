"""The studio as a person uses it: a server, its page in Chromium, and the time until pixels are clean.

Times are taken in the page, from the event that a person causes to the paint that shows its effect.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import numpy as np
from PIL import Image

SIGMA = 15
SIZES = {"512": (512, 512), "24mp": (4000, 6000), "100mp": (10000, 10000)}
_PATIENCE = 3600  # seconds
_WINDOW = (1366, 900)


def add_arguments(parser):
    parser.add_argument(
        "--studio",
        choices=("size", *SIZES),
        nargs="+",
        default=["size", *SIZES],
        help="what to measure in the studio: the installed size, and images in color (default: all)",
    )
    parser.add_argument(
        "--changes", type=int, default=20, help="changes of strength (default: %(default)s)"
    )


def run(options):
    if "size" in options.studio:
        _installed_size()
    with tempfile.TemporaryDirectory() as folder:
        for name, (height, width) in SIZES.items():
            if name in options.studio:
                print(f"\nstudio: {width} x {height} in color, noise {SIGMA}, seconds")
                path = _image(Path(folder), height, width)
                (_large if name == "100mp" else _person)(path, options.changes)


def _installed_size():
    """Print the size of what the extra installs, apart from what the package installs anyway."""
    given = _installed("nlridge", None)
    extra = sorted(_installed("nlridge", "studio") - given)
    sizes = {name: _bytes(name) / 1e6 for name in extra}
    words = ", ".join(f"{name} {size:.1f}" for name, size in sizes.items())
    print(f"\nstudio: installed size of the extra {sum(sizes.values()):.1f} MB ({words})")


def _installed(name, extra):
    """Return the names of the distributions that one needs, itself excluded."""
    from packaging.requirements import Requirement

    found = set()
    for line in metadata.requires(name) or []:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": extra or ""}):
            own = needed.name.lower().replace("_", "-")
            found |= {own} | _installed(own, None)
    return found


def _bytes(name):
    files = metadata.files(name) or []
    return sum(path.locate().stat().st_size for path in files if path.locate().exists())


def _image(folder, height, width):
    """Write a photograph with noise: a JPEG file, or a TIFF file if it is large."""
    import tifffile
    from skimage import data

    photo = 40 + 0.6 * data.astronaut().astype(np.float32)
    tiles = [-(-length // side) for length, side in zip((height, width), photo.shape, strict=False)]
    columns = np.concatenate([photo, photo[:, ::-1]] * -(-tiles[1] // 2), axis=1)[:, :width]
    rng = np.random.default_rng(0)
    image = np.empty((height, width, 3), np.uint8)
    for k in range(tiles[0]):
        rows = (columns[::-1] if k % 2 else columns)[: height - k * len(photo)]
        noise = rng.standard_normal(rows.shape, np.float32)
        image[k * len(photo) :][: len(rows)] = np.clip(np.rint(rows + SIGMA * noise), 0, 255)
    if height * width > 10**8 - 1:
        tifffile.imwrite(folder / "image.tif", image)
        return folder / "image.tif"
    Image.fromarray(image).save(folder / "image.jpg", quality=95, subsampling=0)
    return folder / "image.jpg"


def _person(path, changes):
    """Drop an image, wait for it, and change the strength."""
    with _studio() as (driver, server):
        _drop(driver, path)
        _print_marks(driver, "from drop to", "fast")
        _print_marks(driver, "from drop to", "whole", ["visible", "whole"])
        for place, zoom, start in (("all of it", "fit", 0.5), ("at 1:1", "one", 1.5)):
            _press(driver, f"[data-zoom={zoom}]")
            times = [_change(driver, start + 0.05 * k, "fast") for k in range(changes)]
            for mark in ("first", "fast"):
                median = statistics.median(marks[mark] for marks in times)
                most = max(marks[mark] for marks in times)
                print(
                    f"  from a change of strength to {_WORDS[mark]}, {place}: {median:.2f} "
                    f"(median of {changes}; longest {most:.2f})"
                )
        _change(driver, 2.9, "visible")
        _print_marks(driver, "from a change of strength, at 1:1, to", "visible", ["visible"])
        print(f"  memory of the server: {_memory(server)}", flush=True)


def _large(path, changes):
    """Drop an image, look at it from near and far, and denoise all of it with "fast"."""
    with _studio() as (driver, server):
        print(f"  memory of the server before: {_memory(server)}")
        _drop(driver, path)
        _print_marks(driver, "from drop to", "fast")
        print(f"  memory of the server: {_memory(server)}", flush=True)
        driver.execute_script("window.begin(false)")
        _press(driver, "[data-zoom=one]")
        _print_marks(driver, "from zooming to 1:1 to", "fast", ["first", "fast"])
        frames = driver.execute_async_script(_PAN)
        print(
            f"  frames while it is moved: median {1e3 * statistics.median(frames):.0f} ms, "
            f"longest {1e3 * max(frames):.0f} ms"
        )
        print(f"  memory of the server: {_memory(server)}", flush=True)
        start = time.perf_counter()
        _press(driver, "[name=method][value=fast]")
        _wait(driver, "document.getElementById('status').textContent.startsWith('Done')")
        print(f"  the whole image with fast: {time.perf_counter() - start:.1f}")
        print(f"  memory of the server: {_memory(server)}", flush=True)


_WORDS = {
    "seen": "the image before",
    "first": "the first clean pixels",
    "fast": "a clean view, as sharp as the screen",
    "visible": "the visible pixels that will be saved",
    "whole": "the final result",
}


def _print_marks(driver, words, last, marks=("seen", "first", "fast")):
    """Wait for the last of some marks, and print them."""
    _wait(driver, f"'{last}' in window.marks")
    found = driver.execute_script("return window.marks")
    for mark in marks:
        print(f"  {words} {_WORDS[mark]}: {found[mark]:.2f}", flush=True)


# Marks, in seconds since the latest `begin`: when the image is seen, when its first clean pixels are, which may be less
# sharp than the screen, when there is a clean pixel everywhere in view, when those in view will be saved, and when the
# whole image is done.
_OBSERVE = """
const state = (id) => document.getElementById(id).dataset.state;
let start = 0, renewed = false;
window.begin = (fresh = false) => { start = performance.now(); renewed = fresh; window.marks = {}; };
window.begin(true);
for (const kind of ['drop', 'input']) document.addEventListener(kind, (event) => window.begin(kind === 'drop'), true);
new MutationObserver(() => {
  const mark = (name, is) => { if (is && !(name in window.marks)) window.marks[name] = (performance.now() - start) / 1000; };
  mark('seen', ['exact', 'partly'].includes(state('left')));
  const right = state('right');
  if (!right) return;
  if (right === 'waiting') renewed = true;
  if (!renewed) return;
  mark('first', right !== 'waiting');
  mark('fast', ['fast', 'exact'].includes(right));
  mark('visible', right === 'exact');
  mark('whole', right === 'exact' && document.getElementById('status').textContent.startsWith('Done'));
}).observe(document.getElementById('easel'), { subtree: true, attributes: true, childList: true, characterData: true });
"""
_PAN = """
const done = arguments[0], stage = document.querySelector('.stage'), frames = [];
let last = performance.now();
requestAnimationFrame(function next(now) {
  frames.push((performance.now() - last) / 1000);
  last = performance.now();
  for (const key of ['ArrowRight', 'ArrowDown']) stage.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  if (frames.length < 120) requestAnimationFrame(next); else done(frames.slice(1));
});
"""


def _wait(driver, condition):
    """Wait until an expression in JavaScript is true."""
    end = time.monotonic() + _PATIENCE
    while not driver.execute_script(f"return {condition}"):
        error = driver.execute_script(
            "return document.querySelector('#error:not([hidden]) p')?.textContent"
        )
        if error or time.monotonic() > end:
            raise RuntimeError(error or f"not in {_PATIENCE} s: {condition}")
        time.sleep(0.02)


def _press(driver, selector):
    driver.execute_script(f"document.querySelector('{selector}').click()")


def _drop(driver, path):
    """Drop a file upon the page, as a person would."""
    driver.execute_script(_OBSERVE)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, "x": 500, "y": 400, "data": data}
        driver.execute_cdp_cmd("Input.dispatchDragEvent", event)


def _change(driver, strength, last):
    """Change the strength, and return the marks when the last of them is there."""
    driver.execute_script(
        "const e = document.getElementById('strength'); e.value = arguments[0];"
        "e.dispatchEvent(new Event('input', {bubbles: true}))",
        strength,
    )
    _wait(driver, f"'{last}' in window.marks")
    return driver.execute_script("return window.marks")


@contextmanager
def _studio():
    """A new server, and a browser that shows its page."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    width, height = _WINDOW
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1", f"--window-size={width},{height}"):  # fmt: skip
        options.add_argument(argument)
    command = [sys.executable, "-m", "nlridge", "studio", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        with webdriver.Chrome(
            service=Service(shutil.which("chromedriver")), options=options
        ) as driver:
            driver.set_script_timeout(_PATIENCE)
            driver.get(address)
            time.sleep(2)
            yield driver, server
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _memory(server):
    """Return the memory of a process, now and at most, in words; only Linux tells."""
    status = Path(f"/proc/{server.pid}/status")
    if not status.exists():
        return "not known on this system"
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    now, most, files = (int(lines[name].split()[0]) / 1e3 for name in ("RssAnon", "VmHWM", "RssFile"))  # fmt: skip
    return (
        f"{now:.0f} MB, and {files:.0f} MB of files that are mapped; at most {most:.0f} MB together"
    )
