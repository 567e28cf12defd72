"""The examples of docs/migrating.md: PSNR and processor time of each call, before and after."""

import ast
import re
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .images import psnr
from .methods import restore_trapz
from .progress import shown
from .results import record

PAGE = Path(__file__).parent.parent / "docs" / "migrating.md"


class Example(NamedTuple):
    """A block of Python of the page."""

    title: str
    """The heading above it."""
    code: str

    @property
    def image(self):
        """The name of the image that it denoises."""
        return re.search(r"\bnoisy_(\w+)", self.code)[1]


class Outcome(NamedTuple):
    """How good the result of a call is, and its cost."""

    psnr: float
    noisy: float
    """PSNR of the image before denoising."""
    seconds: float
    """Processor time, the sum over all cores: it depends less on what else the machine is doing."""


def add_arguments(parser):
    pass


def run(options):
    print("\n| replaced call | image | PSNR (dB) | with nlridge | seconds | with nlridge |")
    print("|---|---|---|---|---|---|")
    _, *examples = page_examples()
    for example in shown(examples, "migrating"):
        outcomes = compare(example, options.repeat)
        cells = [[], []]
        for name in ("before", "after"):
            outcome = outcomes.get(name)
            cells[0].append(f"{outcome.psnr:.2f}" if outcome else "not installed")
            cells[1].append(f"{outcome.seconds:.1f}" if outcome else "")
        print(f"| {' | '.join([example.title, example.image, *cells[0], *cells[1]])} |", flush=True)
        values = {}
        for name, outcome in outcomes.items():
            values[f"PSNR {name}"] = round(float(outcome.psnr), 3)
            values[f"seconds {name}"] = round(float(outcome.seconds), 2)
        record(options, "migrating", {f"{example.title}, {example.image}": values})


def page_examples():
    """The block that defines the images, and a comparison in each of the others."""
    page = PAGE.read_text(encoding="utf-8")
    title, examples = "", []
    for heading, code in re.findall(
        r"^#+ ([^\n]*)$|```python\n(.*?)```", page, re.MULTILINE | re.DOTALL
    ):
        title = heading or title
        if code:
            examples.append(Example(title, code))
    return examples


def compare(example, repeat=0):
    """The outcomes of `before` and `after`; without `before` if its package is not installed.

    Seconds are the least of `repeat` calls after the first, which compiles and loads.
    """
    restore_trapz()
    images, *_ = page_examples()
    names, outcomes, missing = {}, {}, False
    exec(images.code, names)
    for statement in ast.parse(example.code).body:
        code = compile(ast.Module([statement], []), PAGE.name, "exec")
        result = statement.targets[0].id if isinstance(statement, ast.Assign) else None
        if result == "before" and missing:
            continue
        try:
            exec(code, names)
        except ImportError:
            missing = True
        if result in ("before", "after"):
            truth, noisy = names[example.image], names[f"noisy_{example.image}"]
            outcomes[result] = Outcome(
                psnr(names[result], truth),
                psnr(noisy, truth),
                min((_seconds(code, names) for _ in range(repeat)), default=np.nan),
            )
    return outcomes


def _seconds(code, names):
    start = time.process_time()
    exec(code, names)
    return time.process_time() - start
