"""The public functions: check the arguments, run, and return what the caller expects."""
