"""Try to break the package: seeded cases, each in a child process, until the time or the cases are used up."""

import argparse
import contextlib
import pkgutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib import import_module
from itertools import count, islice
from types import ModuleType

import fuzz
import nlridge

from .harness import (
    BROKEN,
    CLASSES,
    UGLY,
    Case,
    Limits,
    Outcome,
    Place,
    outcomes,
    raise_statements,
)

_SHOWN = 5  # commands for each reason


def generators() -> dict[str, ModuleType]:
    """The modules of this package that make cases, by name."""
    names = [module.name for module in pkgutil.iter_modules(fuzz.__path__)]
    modules = {name: import_module(f"fuzz.{name}") for name in names if not name.startswith("_")}
    return {name: module for name, module in modules.items() if hasattr(module, "run")}


def import_everything() -> None:
    """All modules of the package, as far as what they need is installed: children have them without a wait."""
    for module in pkgutil.walk_packages(nlridge.__path__, "nlridge."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                import_module(module.name)


def cases(kinds: list[str], seed: int) -> Iterator[Case]:
    """Cases without end, of all kinds in turn."""
    for number in count(seed):
        for kind in kinds:
            yield Case(kind, number)


def main(arguments: list[str] | None = None) -> int:
    modules = generators()
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="when to stop (default: 60)")
    parser.add_argument("--cases", type=int, help="how many cases, however long they take")
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each kind")
    parser.add_argument("--only", choices=modules, help="cases of one kind")
    parser.add_argument("--workers", type=int, default=2, help="cases at a time (default: 2)")
    parser.add_argument("--memory", type=int, default=1024, help="limit of a case in MB")
    parser.add_argument("--again", nargs=2, metavar=("KIND", "SEED"), help="one case, in detail")
    chosen = parser.parse_args(arguments)
    if chosen.again and chosen.again[0] not in modules:
        parser.error(f"--again: KIND is {chosen.again[0]!r}; expected one of {', '.join(modules)}")
    if chosen.only or chosen.again:
        kind = chosen.again[0] if chosen.again else chosen.only
        modules = {kind: modules[kind]}
    import_everything()
    for module in modules.values():
        if hasattr(module, "warm_up"):
            module.warm_up()
    limits = Limits(memory=chosen.memory << 20)
    runs = {name: module.run for name, module in modules.items()}
    if chosen.again:
        (outcome,) = outcomes([Case(kind, int(chosen.again[1]))], runs, limits)
        print(f"{outcome.verdict}: {outcome.reason}\n{outcome.details}".rstrip())
        print(f"memory: {outcome.memory >> 20} MB")
        return int(outcome.verdict in (UGLY, BROKEN))
    todo = cases(list(runs), chosen.seed)
    until = time.monotonic() + chosen.seconds
    if chosen.cases is not None:
        todo, until = islice(todo, chosen.cases), float("inf")
    summary = Summary()
    for outcome in outcomes(todo, runs, limits, chosen.workers, until):
        summary.add(outcome)
    summary.tell()
    return int(bool(summary.bad))


class Summary:
    """What became of all cases."""

    def __init__(self) -> None:
        self.start = self.told = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.bad: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
        self.raised: set[Place] = set()
        self.worst: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        self.counts[outcome.verdict] += 1
        self.kinds[outcome.case.kind] += 1
        self.raised |= outcome.raised
        if self.worst is None or outcome.memory > self.worst.memory:
            self.worst = outcome
        if outcome.verdict in (UGLY, BROKEN):
            self.bad[outcome.verdict, outcome.reason].append(outcome)
            if len(self.bad[outcome.verdict, outcome.reason]) == 1:
                print(
                    f"{outcome.verdict}: {outcome.reason}\n    {outcome.case.command}", flush=True
                )
        if time.monotonic() - self.told > 10:
            self.told = time.monotonic()
            print(self._counts(), flush=True)

    def _counts(self) -> str:
        seconds = time.monotonic() - self.start
        words = ", ".join(f"{self.counts[name]} {name}" for name in CLASSES)
        return f"{sum(self.counts.values())} cases in {seconds:.0f} s: {words}"

    def tell(self) -> None:
        print()
        for (verdict, reason), some in sorted(self.bad.items()):
            print(f"{verdict}, {len(some)} times: {reason}")
            for outcome in some[:_SHOWN]:
                print(f"    {outcome.case.command}")
        statements = raise_statements()
        unreached = [lines for lines in statements if not lines & self.raised]
        print(f"{len(statements) - len(unreached)} of {len(statements)} raise statements reached")
        by_file: dict[str, list[int]] = defaultdict(list)
        for lines in unreached:
            file, line = min(lines)
            by_file[file].append(line)
        for file, numbers in sorted(by_file.items()):
            print(f"    not in {file}: {', '.join(map(str, sorted(numbers)))}")
        print(", ".join(f"{number} of {kind}" for kind, number in sorted(self.kinds.items())))
        if self.worst is not None:
            print(f"most memory: {self.worst.memory >> 20} MB ({self.worst.case.command})")
        print(self._counts())


if __name__ == "__main__":
    sys.exit(main())
