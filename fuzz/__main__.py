"""Try to break the package: run seeded cases, in child processes, until the time is up."""

import argparse
import contextlib
import pkgutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import count, islice
from types import ModuleType

import fuzz
import nlridge

from .harness import VERDICTS, Case, Limits, Outcome, Place, outcomes, raise_statements

_TOGETHER = 16  # cases of a child
_SHOWN = 5  # commands that repeat a case, for each reason


def generators() -> dict[str, ModuleType]:
    """The generators, by name."""
    names = [module.name for module in pkgutil.iter_modules(fuzz.__path__)]
    modules = {name: import_module(f"fuzz.{name}") for name in names if not name.startswith("_")}
    return {name: module for name, module in modules.items() if hasattr(module, "run")}


def import_everything() -> None:
    """Import all modules of the package whose requirements are installed, so that children need not."""
    for module in pkgutil.walk_packages(nlridge.__path__, "nlridge."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                import_module(module.name)


def cases(kinds: list[str], seed: int) -> Iterator[Case]:
    """Endless cases, of all kinds in turn."""
    for number in count(seed):
        for kind in kinds:
            yield Case(kind, number)


def main(arguments: list[str] | None = None) -> int:
    modules = generators()
    parser = _parser(modules)
    chosen = parser.parse_args(arguments)
    only = chosen.again[0] if chosen.again else chosen.only
    if only is not None and only not in modules:
        parser.error(f"--again: KIND is {only!r}; expected one of {', '.join(modules)}")
    if only is not None:
        modules = {only: modules[only]}
    import_everything()
    for module in modules.values():
        if hasattr(module, "warm_up"):
            module.warm_up()
    runs = {name: module.run for name, module in modules.items()}
    limits = Limits(memory=chosen.memory << 20)
    if chosen.again:
        (outcome,) = outcomes([Case(only, int(chosen.again[1]))], runs, limits)
        print(f"{outcome.verdict}: {outcome.reason}\n{outcome.details}".rstrip())
        print(f"memory: {outcome.memory >> 20} MB")
        return int(outcome.is_bad)
    todo = cases(list(runs), chosen.seed)
    until = time.monotonic() + chosen.seconds
    if chosen.cases is not None:
        todo, until = islice(todo, chosen.cases), float("inf")
    summary = Summary()
    for outcome in outcomes(todo, runs, limits, chosen.workers, until, _TOGETHER):
        summary.add(outcome)
    summary.print()
    return int(bool(summary.bad))


def _parser(kinds: Iterable[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=60.0, help="stop after this time (default: 60)")
    add("--cases", type=int, help="run this number of cases instead, however long they take")
    add("--seed", type=int, default=0, help="seed of the first case of each kind (default: 0)")
    add("--only", choices=kinds, help="run cases of this kind only")
    add("--workers", type=int, default=2, help="cases to run at the same time (default: 2)")
    add("--memory", type=int, default=1024, help="memory a case may take, in MB (default: 1024)")
    add("--again", nargs=2, metavar=("KIND", "SEED"), help="run one case again, with all details")
    return parser


class Summary:
    """Counts how cases ended, and prints what went wrong."""

    def __init__(self) -> None:
        self.start = self.last_printed = time.monotonic()
        self.verdicts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.bad: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
        """By verdict and reason."""
        self.raised: set[Place] = set()
        self.largest: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        """Count a case; what is wrong is printed at once, the first time that it happens."""
        self.verdicts[outcome.verdict] += 1
        self.kinds[outcome.case.kind] += 1
        self.raised |= outcome.raised
        if self.largest is None or outcome.memory > self.largest.memory:
            self.largest = outcome
        if outcome.is_bad:
            alike = self.bad[outcome.verdict, outcome.reason]
            alike.append(outcome)
            if len(alike) == 1:
                print(f"{outcome.verdict}: {outcome.reason}", flush=True)
                print(f"    {outcome.case.command}", flush=True)
        if time.monotonic() - self.last_printed > 10:
            self.last_printed = time.monotonic()
            print(self._counts(), flush=True)

    def print(self) -> None:
        print()
        for (verdict, reason), alike in sorted(self.bad.items()):
            print(f"{verdict}, {len(alike)} times: {reason}")
            for outcome in alike[:_SHOWN]:
                print(f"    {outcome.case.command}")
        self._print_raise_statements()
        print(", ".join(f"{number} of {kind}" for kind, number in sorted(self.kinds.items())))
        if self.largest is not None:
            print(f"most memory: {self.largest.memory >> 20} MB ({self.largest.case.command})")
        print(self._counts())

    def _counts(self) -> str:
        seconds = time.monotonic() - self.start
        words = ", ".join(f"{self.verdicts[verdict]} {verdict}" for verdict in VERDICTS)
        return f"{self.verdicts.total()} cases in {seconds:.0f} s: {words}"

    def _print_raise_statements(self) -> None:
        """How many raise statements were reached, and where the others are."""
        statements = raise_statements()
        unreached = [lines for lines in statements if not lines & self.raised]
        print(f"{len(statements) - len(unreached)} of {len(statements)} raise statements reached")
        by_file: dict[str, list[int]] = defaultdict(list)
        for lines in unreached:
            file, line = min(lines)
            by_file[file].append(line)
        for file, numbers in sorted(by_file.items()):
            print(f"    not in {file}: {', '.join(map(str, sorted(numbers)))}")


if __name__ == "__main__":
    sys.exit(main())
