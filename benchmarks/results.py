"""The figures that the pages quote, in docs/results.json: each with the command that measured it.

The file maps each measurement to its runs, and a run to numbers, {row: {column: number}}. Measurements write to it with
`--json FILE`; `python -m benchmarks.figures` writes the tables of the pages from it.
"""

import json
import re
import shlex
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "docs" / "results.json"
_PATHS = ("--data", "--results", "--weights", "--checkouts", "--checkpoints", "--picture")


def add_arguments(parser):
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also record figures in a file of results, such as docs/results.json",
    )


def record(options, name, values):
    """Record numbers, {row: {column: number}}, if the options ask for it; they replace those of earlier runs."""
    path = getattr(options, "json", None)
    if path is None:
        return
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    runs[name] = merged(runs.get(name, []), command(sys.argv[1:]), values)
    path.write_text(_as_text(runs), encoding="utf-8")


def merged(runs, command, values):
    """The runs of a measurement and a new one, without the values of earlier runs that it replaces."""
    values = {str(row): {str(c): v for c, v in columns.items()} for row, columns in values.items()}
    kept = []
    for run in runs:
        rows = {
            row: {c: v for c, v in columns.items() if c not in values.get(row, {})}
            for row, columns in run["values"].items()
        }
        rows = {row: columns for row, columns in rows.items() if columns}
        if rows:
            kept.append({**run, "values": rows})
    return [*kept, {"command": command, "values": values}]


def command(arguments):
    """The command line of a measurement, without the paths of a machine."""
    words, path = ["python", "-m", "benchmarks"], None
    for word in arguments:
        if path == "--json" or word == "--json":
            path = None if path else word
            continue
        words.append("FOLDER" if path else word)
        path = word if word in _PATHS else None
    return shlex.join(words)


def load(path=FILE):
    """The numbers of each measurement, {name: {row: {column: number}}}."""
    runs = json.loads(path.read_text(encoding="utf-8"))
    results = {}
    for name, measured in runs.items():
        rows = results.setdefault(name, {})
        for run in measured:
            for row, columns in run["values"].items():
                rows.setdefault(row, {}).update(columns)
    return results


def _as_text(runs):
    """JSON with a line for each row of numbers."""
    text = json.dumps(runs, indent=1, ensure_ascii=False)
    return re.sub(r"\{[^{}]*\}", lambda row: re.sub(r"\n *", " ", row[0]), text) + "\n"
