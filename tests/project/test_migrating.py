"""The page for people who use other packages: its examples run, and nlridge is at least as good in each."""

import re

import pytest
from benchmarks.migrating import PAGE, compare, page_examples

EXAMPLES = page_examples()[1:]


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda example: f"{example.title} {example.image}"
)
@pytest.mark.filterwarnings("ignore")  # of the other packages
def test_the_call_after_is_better_than_the_call_before(example):
    """Where the other package is not installed, the call of nlridge runs alone."""
    outcomes = compare(example)
    after = outcomes["after"]
    assert after.psnr > after.noisy + 5
    if "before" in outcomes:
        assert after.psnr > outcomes["before"].psnr


def test_the_table_of_the_page_has_a_row_for_each_example():
    rows = re.findall(r"^\| (.*`.*) \| (\w+) \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text("utf-8"), re.M)  # fmt: skip
    assert [row[:2] for row in rows] == [(example.title, example.image) for example in EXAMPLES]
    assert all(float(after) > float(before) for *_, before, after in rows)
