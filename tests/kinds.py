"""Images for the tests of the framework, whose passes are run by a function of the test."""

from nlridge.images.array import Arrays


class RunBy(Arrays):
    """Arrays whose passes are run by the given function."""

    def __init__(self, run):
        super().__init__()
        self.run_pass = run
