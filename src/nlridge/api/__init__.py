"""The public functions: check the arguments, run, return what the caller expects."""
