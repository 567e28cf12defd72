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
        help="what to measure in the studio: the installed size, and images in colour (default: all)",
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
                print(f"\nstudio: {width} x {height} in colour, noise {SIGMA}, seconds")
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
        _wait(driver, "visible")
        seen = _marks(driver)
        print(f"  from drop to the image               {seen['seen']:8.2f}")
        print(f"  from drop to the first clean pixels  {seen['first']:8.2f}")
        print(f"  from drop to a clean view            {seen['fast']:8.2f}")
        print(f"  from drop to what will be saved, of what is visible {seen['visible']:8.2f}", flush=True)  # fmt: skip
        _wait(driver, "whole")
        print(f"  from drop to the final result        {_marks(driver)['whole']:8.2f}", flush=True)
        for zoom in ("fit", "one"):
            _press(driver, f"[data-zoom={zoom}]")
            _settle(driver)
            times = [_change(driver, 0.5 + 0.05 * k) for k in range(changes)]
            for kind in ("first", "fast", "visible"):
                median = statistics.median(times_of[kind] for times_of in times)
                most = max(times_of[kind] for times_of in times)
                print(f"  from a change of strength to {_WORDS[kind]}, {zoom}: median of {changes} {median:.2f}, longest {most:.2f}", flush=True)  # fmt: skip
        print(f"  memory of the server: {_memory(server)}")


_WORDS = {
    "first": "the first pixels",
    "fast": "a clean view",
    "visible": "the pixels that will be saved",
}


def _large(path, changes):
    """Drop an image, look at it from near and far, and denoise all of it with "fast"."""
    with _studio() as (driver, server):
        print(f"  memory of the server before: {_memory(server)}")
        _drop(driver, path)
        _wait(driver, "fast")
        seen = _marks(driver)
        print(f"  from drop to the image               {seen['seen']:8.2f}")
        print(f"  from drop to the first clean pixels  {seen['first']:8.2f}")
        print(f"  from drop to a clean view            {seen['fast']:8.2f}")
        print(f"  memory of the server: {_memory(server)}", flush=True)
        driver.execute_script(_BEGIN)
        _press(driver, "[data-zoom=one]")
        _wait(driver, "visible")
        seen = _marks(driver)
        print(f"  from zooming to 1:1 to the first clean pixels {seen['first']:.2f}")
        print(f"  from zooming to 1:1 to what will be saved     {seen['visible']:.2f}")
        frames = driver.execute_async_script(_PAN)
        print(f"  frames while it is moved: median {1e3 * statistics.median(frames):.0f} ms, longest {1e3 * max(frames):.0f} ms")  # fmt: skip
        print(f"  memory of the server: {_memory(server)}", flush=True)
        start = time.perf_counter()
        _press(driver, "[name=method][value=fast]")
        _wait(driver, "whole", "document.getElementById('status').textContent.startsWith('Done')")
        print(f"  the whole image with fast            {time.perf_counter() - start:8.1f}")
        print(f"  memory of the server: {_memory(server)}")


# Marks, in seconds since the latest `begin`: when the image is seen, when its first clean pixels are, when there is a clean
# pixel everywhere in view, when those in view will be saved, and when the whole image is done.
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
_BEGIN = "window.begin(true); window.marks = {}"
_PAN = """
const done = arguments[0], stage = document.querySelector('.stage'), frames = [];
let last = performance.now();
const point = (type, x) => stage.dispatchEvent(new PointerEvent(type, { pointerId: 1, isPrimary: true, button: 0, buttons: 1, clientX: x, clientY: 400, bubbles: true }));
requestAnimationFrame(function next(now) {
  frames.push((performance.now() - last) / 1000);
  last = performance.now();
  for (const key of ['ArrowRight', 'ArrowDown']) stage.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  if (frames.length < 120) requestAnimationFrame(next); else done(frames.slice(1));
});
"""


def _wait(driver, mark, condition=None):
    """Wait for a mark, or for a condition."""
    condition = condition or f"'{mark}' in window.marks"
    end = time.monotonic() + _PATIENCE
    while not driver.execute_script(f"return {condition}"):
        error = driver.execute_script(
            "return document.querySelector('#error:not([hidden]) p')?.textContent"
        )
        if error or time.monotonic() > end:
            raise RuntimeError(error or f"no {mark} in {_PATIENCE} s")
        time.sleep(0.02)


def _settle(driver):
    """Wait until nothing is left to do."""
    done = "document.getElementById('right').dataset.state === 'exact' && document.getElementById('status').textContent.startsWith('Done')"
    _wait(driver, "", done)
    time.sleep(0.5)


def _marks(driver):
    return driver.execute_script("return window.marks")


def _press(driver, selector):
    driver.execute_script(f"document.querySelector('{selector}').click()")


def _drop(driver, path):
    """Drop a file upon the page, as a person would."""
    driver.execute_script(_OBSERVE)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, "x": 500, "y": 400, "data": data}
        driver.execute_cdp_cmd("Input.dispatchDragEvent", event)


def _change(driver, strength):
    driver.execute_script(
        "const e = document.getElementById('strength'); e.value = arguments[0];"
        "e.dispatchEvent(new Event('input', {bubbles: true}))",
        strength,
    )
    _wait(driver, "visible")
    return _marks(driver)


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
