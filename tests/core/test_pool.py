"""The threads of the engines."""

import gc
import multiprocessing
import sys
from contextlib import closing

import numpy as np
import pytest

from nlridge import denoise
from nlridge.core.engines.pool import in_order, threads_of


def test_results_are_in_order_and_computed_ahead():
    started = []

    def square(k):
        started.append(k)
        return k * k

    with closing(in_order(square, range(50), 2)) as results:
        assert next(results) == 0
        assert len(started) <= 6  # not all of them
        assert list(results) == [k * k for k in range(1, 50)]


def test_threads_are_kept_for_the_next_call():
    with threads_of(3) as first:
        pass
    with threads_of(3) as second:
        assert second is first
    with threads_of(2) as other:
        assert other is not first
    with pytest.raises(RuntimeError):  # they have been ended
        first.submit(int)


def test_calls_at_the_same_time_do_not_share_threads():
    with threads_of(2) as one, threads_of(2) as other:
        assert one is not other
    with threads_of(2) as again:
        assert again in (one, other)
        assert again.submit(int).result() == 0


def test_calls_within_calls_do_not_wait_for_each_other():
    def inner(k):
        return sum(in_order(float, range(k), 2))

    assert list(in_order(inner, range(8), 2)) == [sum(range(k)) for k in range(8)]


def test_an_error_ends_the_work_and_leaves_the_threads_usable():
    done = []

    def fail(k):
        if k == 1:
            raise ZeroDivisionError
        done.append(k)
        return k

    with pytest.raises(ZeroDivisionError):
        list(in_order(fail, range(1000), 2))
    assert len(done) < 10
    finished = list(done)
    assert list(in_order(float, range(9), 2)) == list(range(9))
    assert done == finished  # nothing went on in the background


def test_an_iterator_that_is_abandoned_leaves_the_threads_usable():
    """Even in a cycle of references, which only the garbage collector finds: the next call waited forever."""
    abandoned = in_order(float, range(50), 2)
    next(abandoned)
    cycle = [abandoned]
    cycle.append(cycle)
    del abandoned, cycle
    gc.collect()
    with threads_of(2) as threads:
        assert threads.submit(int).result(60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_forked_process_has_threads_of_its_own():
    noisy = np.random.default_rng(0).normal(100, 20, (64, 64))
    expected = denoise(noisy, 20, method="fast", workers=2)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(
        target=lambda: queue.put(denoise(noisy, 20, method="fast", workers=2)), daemon=True
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(queue.get(), expected)
