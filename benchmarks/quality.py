"""The paper's Table 2: PSNR of each method on the test sets, with published values, seconds and memory.

--methods takes the names that `benchmarks.methods` describes: methods with changes after commas, and other packages.
"""

import numpy as np

import nlridge

from .images import image_sets
from .measuring import measured
from .published import PEERS, TABLE_2
from .results import record


def add_arguments(parser):
    parser.add_argument(
        "--sigma",
        type=float,
        nargs="+",
        default=[15, 25],
        help="noise levels of Table 2 (default: %(default)s)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["nl-ridge", "nl-bayes", "bm3d", "fast", "standard", "best"],
        help="rows of Table 2, as described in benchmarks/methods.py (default: %(default)s)",
    )


def run(options):
    sets = image_sets(options.data, options.sets, options.part)
    rows = []
    try:
        for row in measured(options, ["noisy", *options.methods], options.sigma, sets):
            rows.append(row)  # rows before an interruption count
    except KeyboardInterrupt:
        print("interrupted: the same command resumes the measurement")
    for name, images in sets.items():
        print(f"\n{table(rows, name, len(images), options)}", flush=True)
        record(options, f"quality {name}", means(rows, name, len(images), options))


def means(rows, name, count, options):
    """The mean PSNR of each method on a set by noise level, if all images were measured; and their number, if a part."""
    values = {}
    for method in ("noisy", *options.methods):
        for sigma in options.sigma:
            here = [row.psnr for row in _of(rows, name, method) if row.sigma == sigma]
            if len(here) == count * options.seeds:
                values.setdefault(method, {})[f"{sigma:g}"] = round(float(np.mean(here)), 3)
        if method in values and options.part is not None:
            values[method]["images"] = count
    return values


def table(rows, name, count, options):
    """The table of one set in Markdown: a line for each method, with the noise levels side by side."""
    levels = " / ".join(f"{sigma:g}" for sigma in options.sigma)
    seeds = f", ± standard error over {options.seeds} draws of the noise" * (options.seeds > 1)
    whole = options.part is None
    lines = [
        f"mean PSNR (dB), {name}, {count} images, sigma {levels}{seeds}",
        "",
        f"| method | measured | published | change from {options.methods[0]} (worst image) | seconds | MB |",
        "|---|---|---|---|---|---|",
    ]
    base = _of(rows, name, options.methods[0])
    for method in ["noisy", *options.methods, *_elsewhere(name, options)]:
        mine = _of(rows, name, method)
        cells = [[] for _ in range(5)]
        for sigma in options.sigma:
            here = [row for row in mine if row.sigma == sigma]
            known = TABLE_2.get(_published(method), {}).get(name, {}).get(sigma) if whole else None
            cells[0].append(_mean(here, count * options.seeds))
            cells[1].append("" if known is None else f"{known:.2f}")
            if method == "noisy":
                continue
            cells[2].append(_change(here, base))
            cells[3].append(f"{np.mean([row.seconds for row in here]):.2f}" if here else "")
            cells[4].append(f"{np.max([row.megabytes for row in here]):.0f}" if here else "")
        joined = [" / ".join(column) if any(column) else "" for column in cells]
        lines.append(f"| {method} | " + " | ".join(joined) + " |")
    return "\n".join(lines)


def _of(rows, name, method):
    return [row for row in rows if row.set == name and row.method == method]


def _elsewhere(name, options):
    """Published methods that are not measured here."""
    if options.part is not None or not {15, 25} & set(options.sigma):
        return []
    known = [method for method, sets in TABLE_2.items() if name in sets]
    here = {"noisy", *nlridge.method_names(), *map(_published, options.methods)}
    return [method for method in known if method not in here]


def _published(method):
    """The name of a method in Table 2, whatever its options."""
    return PEERS.get(method.split(",")[0], method)


def _mean(rows, expected):
    if not rows:
        return ""
    turns = {}
    for row in rows:
        turns.setdefault(row.turn, []).append(row.psnr)
    means = [np.mean(values) for values in turns.values()]
    text = f"{np.mean(means):.2f}"
    if len(rows) < expected:
        text += f" ({len(rows)} of {expected})"
    elif len(means) > 1:
        text += f" ± {np.std(means, ddof=1) / np.sqrt(len(means)):.3f}"
    return text


def _change(rows, base):
    """The mean and the worst change over the images that both have."""
    known = {(row.image, row.sigma, row.turn): row.psnr for row in base}
    changes = [
        row.psnr - known[place]
        for row in rows
        if (place := (row.image, row.sigma, row.turn)) in known
    ]
    return f"{np.mean(changes):+.3f} ({min(changes):+.3f})" if changes and any(changes) else ""
