"""Write the figures of README.md and docs/*.md from docs/results.json: `python -m benchmarks.figures`.

A page has `<!-- figures: NAME -->` and `<!-- end of figures -->` where the table NAME of this module belongs.
"""

import re
from pathlib import Path

from .frontier import name_in_plot
from .peers import is_independent
from .published import BARBARA, BEST_UNTRAINED, DNCNN, PEERS, TABLE_2
from .results import load

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(
    r"(<!-- figures: (?P<name>[\w -]+) -->\n)(?P<body>.*?)(<!-- end of figures -->)", re.DOTALL
)
_SIGMAS = (5, 15, 25, 35, 50)
_SETS = {"set12": "Set12", "bsd68": "BSD68", "urban100": "Urban100"}
_PUBLISHED_METHODS = ("bm3d", "nl-bayes", "nl-ridge")
_OWN_METHODS = ("fast", "standard", "best")
_OTHERS = {
    "opencv nl-means": "OpenCV `fastNlMeansDenoising`",
    "scikit-image wavelets": "scikit-image `denoise_wavelet`",
    "scikit-image nl-means": "scikit-image `denoise_nl_means`",
    "bm3d package": "`bm3d` package",
}
_MISSING = "–"


def main():
    results = load()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        filled = fill(text, results)
        if filled != text:
            page.write_text(filled, encoding="utf-8")
            print(page.relative_to(ROOT))


def names_in(text):
    """The names of the tables that a page contains."""
    return [block["name"] for block in _BLOCK.finditer(text)]


def fill(text, results):
    """The text of a page with its tables written from the results."""

    def table(block):
        return f"{block[1]}\n{_markdown(*TABLES[block['name']](results))}\n\n{block[4]}"

    return _BLOCK.sub(table, text)


def _markdown(header, rows):
    lines = [
        "|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in (header, *rows)
    ]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def _label(method):
    return _OTHERS.get(method, f'`"{method}"`')


def _number(columns, key, form=".2f"):
    return format(columns[str(key)], form) if str(key) in columns else _MISSING


def _levels(columns, sigmas, form=".2f"):
    return " / ".join(_number(columns, sigma, form) for sigma in sigmas)


def _set12(results):
    measured = results["quality set12"]
    methods = ("standard", "best", "fast", "nl-ridge", "nl-bayes", "bm3d")
    rows = {_label(method): measured[method] for method in methods}
    rows["NL-Ridge, the authors' code on the same noise"] = measured["authors' code"]
    rows["best published without training (WNNM, LIChI)"] = BEST_UNTRAINED["set12"]
    header = ["sigma", *map(str, _SIGMAS)]
    return header, [
        [name, *(_number(columns, sigma) for sigma in header[1:])] for name, columns in rows.items()
    ]


def _seconds_and_quality(results):
    speed, quality = results["speed"], results["quality set12"]
    ours = ("fast", "standard", "best", "nl-ridge", "nl-bayes", "bm3d")
    others = ("opencv nl-means", "scikit-image nl-means", "bm3d package")
    return ["", "seconds", "PSNR (dB)"], [
        [
            f"nlridge {_label(method)}" if method in ours else _label(method),
            _number(speed[method], "seconds at 25"),
            _number(quality[method], 25),
        ]
        for method in (*ours, *others)
    ]


def _quality(results):
    rows = [
        [_label(m), *(_levels(results[f"quality {name}"].get(m, {}), _SIGMAS) for name in _SETS)]
        for m in ("standard", "best")
    ]
    for label, published in (
        ("best published without training", BEST_UNTRAINED),
        ("DnCNN (trained)", DNCNN),
    ):
        rows.append([label, *(_levels(published[name], _SIGMAS) for name in _SETS)])
    return ["", *_SETS.values()], rows


def _seconds(results):
    methods = ("fast", "standard", "nl-ridge", "best", "opencv nl-means", "bm3d package")
    keys = [f"seconds at {sigma}" for sigma in _SIGMAS]
    return ["", "seconds"], [[_label(m), _levels(results["speed"][m], keys)] for m in methods]


def _ratios(results):
    rows = []
    for method in ("fast", "best", "nl-ridge", "nl-bayes", "bm3d", *_OTHERS):
        columns = results["speed"][method]
        keys = [f"{which} ratio at 25" for which in ("median", "least", "largest")]
        form = ".1f" if columns[keys[0]] >= 2 else ".2f"
        median, least, largest = (_number(columns, key, form) for key in keys)
        rows.append([_label(method), f"{median} ({least} to {largest})"])
    return ["", "ratio"], rows


def _first(results):
    times = results["first"]
    return ["", *map(_label, _OWN_METHODS)], [
        [f"kernels {kind}", *(_number(times[m], kind, form) for m in _OWN_METHODS)]
        for kind, form in (("to be compiled", ".1f"), ("on disk", ".2f"))
    ]


def _workers(results):
    speeds = results["workers"]
    cases = [f"{side} × {side} {kind}" for side in (512, 256) for kind in ("gray", "color")]
    rows = [
        [f"{_label(m)}, two workers", *(_number(speeds[f"{m}, two workers"], case) for case in cases)]
        for m in _OWN_METHODS
    ]  # fmt: skip
    spans = [
        " to ".join(_number(speeds[f"two processes, {end}"], case) for end in ("least", "largest"))
        for case in cases
    ]
    return ["", *cases], [*rows, ["two processes", *spans]]


def _barbara(results):
    names = {"noisy": "noisy", "bm3d": "BM3D", "nl-bayes": "NL-Bayes", "nl-ridge": "NL-Ridge"}
    methods = (*names, "standard", "best")
    return ["", *(names.get(method, _label(method)) for method in methods)], [
        ["the paper", *(f"{BARBARA[m]:.2f}" if m in BARBARA else "" for m in methods)],
        ["measured", *(_number(results["barbara"][m], "PSNR") for m in methods)],
    ]


def _table_2(results):
    trained = {PEERS[name]: name for name in ("dncnn", "ffdnet", "lidia")}
    rows = []
    for method in ("noisy", *_PUBLISHED_METHODS, *_OWN_METHODS, *PEERS.values()):
        row = [_label(method) if method in (*_PUBLISHED_METHODS, *_OWN_METHODS) else method]
        for name in _SETS:
            columns = results[f"quality {name}"].get(trained.get(method, method))
            cell = "" if columns is None else _levels(columns, (15, 25))
            if columns and "images" in columns:
                cell += f" ({columns['images']})"
            published = TABLE_2.get(method, {}).get(name)
            row += [cell, f"{published[15]:.2f} / {published[25]:.2f}" if published else ""]
        if method not in trained and method in PEERS.values():
            row[1] = "see below"
        rows.append(row)
    return ["", *(cell for name in _SETS.values() for cell in (name, "the paper"))], rows


def _sure(results):
    families = {"ridge": "ridge ($n = 49$, $m = 18$)", "bayes": "bayes (25, 60)", "bm3d": "bm3d (64, 16)"}  # fmt: skip
    return ["", *families.values()], [
        [
            situation.replace("Θ", r"$\Theta$"),
            *(
                f"{columns[name]:+.2f} ± {columns[f'{name}, error']:.2f}".replace("-", "−")
                for name in families
            ),
        ]
        for situation, columns in results["sure"].items()
    ]


def _video(results):
    methods, rows = ("preview", *_OWN_METHODS), []
    for name, columns in results["video"].items():
        opencv = [value for key, value in columns.items() if key.startswith("OpenCV")]
        rows.append(
            [
                name,
                *(_number(columns, method) for method in methods),
                _number(columns, "frame by frame, standard"),
                f"{max(opencv):.2f}" if opencv else "",
                _number(columns, "bm4d package") if "bm4d package" in columns else "",
            ]
        )
    return ["", *map(_label, methods), "frame by frame", "OpenCV", "`bm4d`"], rows


def _raw(results):
    columns = {
        "noisy": "noisy",
        "after, estimated": "after developing, noise estimated",
        "after, white": "after, level known, assumed white",
        "after, known": "after, level and correlation known",
        "before, estimated": "**before developing, noise estimated**",
        "before, known": "before, noise known",
    }
    rows = []
    for name, values in results["raw"].items():
        cells = [_number(values, key) for key in columns]
        cells[4] = f"**{cells[4]}**"
        rows.append([name, *cells])
    return ["", *columns.values()], rows


def _migrating(results):
    header = ["replaced call", "image", "PSNR (dB)", "with nlridge", "seconds", "with nlridge"]
    return header, [
        [
            *name.rsplit(", ", 1),
            *(_number(columns, f"PSNR {which}") for which in ("before", "after")),
            *(_number(columns, f"seconds {which}", ".1f") for which in ("before", "after")),
        ]
        for name, columns in results["migrating"].items()
    ]


def _tensors(results):
    images = {
        "01": "Set12 01, 256 × 256",
        "07": "Set12 07, 256 × 256",
        "09": "Set12 09, 512 × 512",
        "101085": "CBSD68 101085, 481 × 321 × 3",
    }
    rows = []
    for method in ("fast", "nl-ridge", "nl-bayes", "bm3d"):
        columns, row = results["tensors"][method], [_label(method)]
        for image in images:
            cell = ", ".join(_number(columns, f"{image}, {key}", ".3f") for key in ("compiled", "PyTorch"))  # fmt: skip
            times = [columns.get(f"{image}, seconds {key}") for key in ("compiled", "of PyTorch")]
            if None not in times:
                cell += " ({}, {})".format(
                    *(f"{t:.2f} s" if t < 1 else f"{t:.1f} s" for t in times)
                )
            row.append(cell)
        rows.append(row)
    return ["", *images.values()], rows


def _memory_of_tensors(results):
    return ["`method`", "MB"], [
        [_label(method), f"{columns['MB']:.0f}"]
        for method, columns in results["memory of tensors"].items()
    ]


def _frontier(results):
    columns = {
        "ms, 25": "ms at 25",
        "dB, 25": "dB at 25",
        "ms, 50": "ms at 50",
        "dB, 50": "dB at 50",
    }
    rows = sorted(results["frontier"].items(), key=lambda row: row[1]["ms at 25"])
    return ["", *columns], [
        [
            name_in_plot(method) if is_independent(method) else _label(method),
            *(_number(values, key, ".0f" if "ms" in key else ".2f") for key in columns.values()),
        ]
        for method, values in rows
    ]


TABLES = {
    "Set12": _set12,
    "seconds and quality": _seconds_and_quality,
    "quality": _quality,
    "seconds": _seconds,
    "ratios": _ratios,
    "first call": _first,
    "workers": _workers,
    "Barbara": _barbara,
    "Table 2": _table_2,
    "SURE": _sure,
    "video": _video,
    "raw": _raw,
    "migrating": _migrating,
    "tensors": _tensors,
    "memory of tensors": _memory_of_tensors,
    "frontier": _frontier,
}

if __name__ == "__main__":
    main()
