"""Errors as values: what is wrong with which argument, in words that each interface can put its own names into."""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

_LONGEST = 80  # characters of a value shown in a message
_NAME = re.compile(r"`([\w. -]+)(?:='(\w+)')?`")


class Words(str):
    """A text in which names of arguments are known as such: those in backticks, which are left out.

    >>> words = Words("pass `channel_axis`, or `noise='poisson'`")
    >>> print(words)
    pass channel_axis, or noise='poisson'
    >>> words.naming(lambda name: "--" + name.replace("_", "-"))
    'pass --channel-axis, or --noise poisson'
    """

    template: str

    def __new__(cls, template: str) -> "Words":
        words = super().__new__(cls, _NAME.sub(lambda match: match[0][1:-1], template))
        words.template = template
        return words

    def naming(self, name_of: Callable[[str], str]) -> str:
        """Return the text with other names of the arguments, as a command line has."""

        def renamed(match: re.Match[str]) -> str:
            name, value = match.groups()
            return name_of(name) if value is None else f"{name_of(name)} {value}"

        return _NAME.sub(renamed, self.template)


class ArgumentError(ValueError):
    """An argument that cannot be used. The message says what was found, and what was expected.

    Parameters
    ----------
    name : str
        The name of the argument.
    value : object
        Its value, or what is wrong about it, such as its shape; None for the pixels of an image.
    expected : str
        What was expected, in words.
    found : str, optional
        What was found, in words, with ``{value}`` for the value; by default "is" and the value.

    Notes
    -----
    If the type of the argument is wrong, the error is a `TypeError` as well.

    Examples
    --------
    >>> import nlridge
    >>> try:
    ...     nlridge.GaussianNoise("loud")
    ... except nlridge.ArgumentError as error:
    ...     print(error)
    ...     print((error.name, error.value, error.expected))
    sigma is 'loud'; expected a number or an array of numbers
    ('sigma', 'loud', 'a number or an array of numbers')
    """

    def __init__(self, name: str, value: object, expected: str, found: str = "") -> None:
        self.name, self.value, self.expected = name, value, Words(expected)
        if "{value}" in found:
            found = found.replace("{value}", str(value))
        self._found = found or f"is {shown(value)}"
        super().__init__(Words(f"`{name}` {self._found}; expected {expected}"))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.value, self.expected.template, self._found)

    def about(self, name: str) -> "ArgumentError":
        """The same error about an argument of another name."""
        return type(self)(name, self.value, self.expected.template, self._found)


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a type that cannot be used."""


def shown(value: Any) -> str:
    """The repr of a value, on one line and shortened if it is long; a path as it is."""
    if isinstance(value, PurePath):
        return str(value)
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer with too many digits, or an object whose repr fails
        return f"of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."
