"""The page of `denoise --report`, written file by file."""

import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from ...atomic import expect_new
from ..jobs.frames import DenoisedClip
from ..jobs.pictures import DenoisedFile
from ..jobs.words import printable
from .printing import failing_alone
from .results import facts_of_clip

_Result: TypeAlias = DenoisedFile | DenoisedClip


class Report:
    """The page of `--report`, if one is asked for: written file by file, and complete even after Ctrl-C."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.page = ExitStack()
        self.write: Callable[[Any], None] | None = None
        path = options.report
        if path:
            expect_new("report", path, overwrite=options.overwrite, alternatives=" or --overwrite")
            Path(path).parent.mkdir(parents=True, exist_ok=True)

    def with_time(
        self, source: Path, target: Path, result: _Result, failures: list[str]
    ) -> _Result:
        """Add a file to the page, and return its result with the time that this took; see `add`."""
        start = time.perf_counter()
        self.add(source, target, result, failures)
        return replace(result, seconds=result.seconds + time.perf_counter() - start)

    def add(self, source: Path, target: Path, result: _Result, failures: list[str]) -> None:
        """Add a file to the page; if that fails, add a sentence to `failures`."""
        if not self.options.report:
            return
        from ..pages.report import clip_entry, entry, page_at

        problems: list[str] = []
        with failing_alone(source, problems):
            if isinstance(result, DenoisedClip):
                new_entry = clip_entry(
                    source,
                    target,
                    result.sample,
                    result.frames,
                    facts_of_clip(result),
                    self.options,
                )
            else:
                new_entry = entry(source, target, result, self.options)
            if self.write is None:  # the page is created with its first entry
                self.write = self.page.enter_context(page_at(Path(self.options.report)))
            self.write(new_entry)
        failures.extend(f"report: {problem}" for problem in problems)

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()  # completes the page, whatever has happened
        if self.write is not None and not (self.options.quiet or self.options.json):
            print(printable(f"report: {self.options.report}"))
