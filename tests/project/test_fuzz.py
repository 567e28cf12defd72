"""The harness for fuzzing judges every kind of case correctly."""

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from fuzz.harness import BROKEN, CLEAN, OK, UGLY, Case, Limits, outcomes, raise_statements
from fuzz.intact_files import intact_file

from nlridge import denoise

ROOT = Path(__file__).parents[2]
# Other tests may have left threads, which the cases do not need.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def outcome(run, **limits):
    (result,) = outcomes([Case("test", 7)], {"test": run}, Limits(**limits))
    return result


def crash():
    os.kill(os.getpid(), 11)


def hang():
    while True:
        time.sleep(1)


def leak():
    kept = []
    while True:
        kept.append(np.ones(2**20))


def leak_at_once():
    np.ones(2**24)  # 128 MB, for too short a time to be seen


def warn():
    warnings.warn("mind the gap", stacklevel=1)


def warn_by_numpy():
    np.float32(1e38) * np.float32(10)


def refuse():
    denoise(np.zeros((5, 5)), -1)


def refuse_by_numpy():
    np.zeros(3) + np.zeros(4)


def two_lines():
    raise ValueError("one\ntwo")


def print_to_stderr():
    os.write(2, b"libsomething: error\n")


def exhaust():
    np.zeros(2**50)


def exit_early():
    os._exit(3)


@pytest.mark.parametrize(
    ("what", "verdict", "reason"),
    [
        (lambda: None, OK, ""),
        (refuse, CLEAN, "ArgumentError: sigma is -1; expected a positive number"),
        (two_lines, UGLY, "expected a message of one line"),
        (refuse_by_numpy, UGLY, ""),
        (lambda: {}["key"], UGLY, "KeyError: 'key'"),
        (lambda: int("1\n2"), UGLY, "ValueError"),
        (warn, UGLY, "warned: mind the gap"),
        (warn_by_numpy, UGLY, "warned: overflow encountered"),
        (print_to_stderr, UGLY, "printed to stderr: ['libsomething: error']"),
        (lambda: sys.exit(1), UGLY, "SystemExit"),
        (lambda: np.testing.assert_equal(1, 2), BROKEN, "AssertionError"),
        (crash, BROKEN, "ended by SIGSEGV"),
        (exit_early, BROKEN, "ended with exit code 3 before its end"),
        (hang, BROKEN, "took longer than 2 s"),
        (leak, BROKEN, "took more than 64 MB"),
        (leak_at_once, BROKEN, "more than 64 MB"),
        (exhaust, CLEAN, "MemoryError"),
    ],
)
def test_the_verdict_on_a_case(what, verdict, reason):
    result = outcome(lambda seed, folder: what(), memory=2**26, seconds=2 if what is hang else 60)
    assert (result.verdict, reason in result.reason) == (verdict, True), result


def test_a_case_gets_its_seed_and_a_folder():
    def run(seed, folder):
        assert seed == 7
        assert not list(folder.iterdir())
        Path("here").write_text("a")
        assert (folder / "here").exists()

    assert outcome(run).verdict == OK
    assert Case("test", 7).command == "python -m fuzz --again test 7"


def test_raise_statements_that_are_reached_are_reported_even_if_errors_are_caught():
    def run(seed, folder):
        with pytest.raises(ValueError, match="sigma is -1"):
            refuse()

    result = outcome(run)
    reached = [lines for lines in raise_statements() if lines & result.raised]
    assert result.verdict == OK
    assert [next(iter(lines))[0] for lines in reached] == ["checks.py"]


def test_a_crash_shows_where_it_was():
    assert "in crash" in outcome(lambda seed, folder: crash()).details


@pytest.mark.parametrize("bad", [crash, exit_early, warn, print_to_stderr, lambda: 1 / 0])
def test_a_case_that_goes_wrong_among_others_is_judged_by_itself(bad):
    cases = [Case("test", seed) for seed in range(7)]
    runs = {"test": lambda seed, folder: bad() if seed == 3 else None}
    alone = {result.case: result for result in outcomes(cases, runs)}
    together = {result.case: result for result in outcomes(cases, runs, together=5, workers=2)}
    assert sorted(together) == sorted(alone) == cases
    assert [together[case].reason for case in cases] == [alone[case].reason for case in cases]
    assert [result.is_bad for result in alone.values()] == [seed == 3 for seed in range(7)]


def test_a_case_that_goes_wrong_only_after_others_is_told():
    done = []

    def run(seed, folder):
        done.append(seed)
        assert done != [0, 1]

    results = {
        result.case.seed: result
        for result in outcomes([Case("test", seed) for seed in range(3)], {"test": run}, together=3)
    }
    assert [results[seed].verdict for seed in range(3)] == [OK, UGLY, OK]
    assert "fine by itself, but after other cases: AssertionError" in results[1].reason


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True])
def test_cases_run_from_the_command_line(again):
    """The first calls of the API are in order, and can be repeated one by one."""
    pytest.importorskip("torch")
    arguments = ["--again", "api", "3"] if again else ["--only", "api", "--cases", "40"]
    command = [sys.executable, "-m", "fuzz", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("memory: " if again else "40 cases in ") in done.stdout
    assert again or "raise statements reached" in done.stdout


def test_hostile_stores_get_one_sentence_each(tmp_path):
    """Some of what `make fuzz` tries."""
    pytest.importorskip("zarr")
    from fuzz import hostile_zarr

    refused = []
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            hostile_zarr.run(seed, folder)
        except (ValueError, TypeError, OSError) as error:
            refused.append(str(error))
    assert 15 < len(refused) < 30
    assert not any("\n" in sentence for sentence in refused)


def test_a_seed_makes_the_same_file_again():
    def files():
        return [intact_file(np.random.default_rng(seed)) for seed in range(100)]

    first = files()
    time.sleep(1)  # some libraries write the time
    assert files() == first
