"""One table of options: every application has all of them, with the defaults of Python."""

import inspect
import json
import re
from pathlib import Path

import pytest

import nlridge
from nlridge import ArgumentError
from nlridge.apps.cli.parser import build_parser
from nlridge.apps.jobs.commands import command_for
from nlridge.apps.jobs.words import with_options
from nlridge.apps.options import ADJUSTMENTS, ARGUMENTS, COMMANDS, FLAGS, OPTIONS, is_given

SIGNATURE = inspect.signature(nlridge.denoise).parameters
IN_PYTHON = [name for name in OPTIONS if name in SIGNATURE]


def another(option):
    """A value that is not the default."""
    if option.choices:
        return next(choice for choice in option.choices if choice != option.default)
    return {bool: True, int: 7, float: 0.5, str: "x"}.get(option.type, 3.5)


@pytest.mark.parametrize("name", IN_PYTHON)
def test_defaults_are_those_of_python(name):
    assert OPTIONS[name].default == SIGNATURE[name].default


def test_arguments_that_adjust_the_algorithm_are_options():
    from nlridge.core.algorithm.tuning import Tuning

    adjusting = set(inspect.signature(Tuning).parameters) - {"outliers"}  # --keep-outliers
    assert set(ADJUSTMENTS) == adjusting
    assert {*ADJUSTMENTS, "sigma", "noise", "method"} == set(ARGUMENTS) <= set(SIGNATURE)


def test_the_command_line_has_every_option():
    for command, parser in build_parser().commands.choices.items():
        made = {action.dest: action for action in parser._actions if action.dest != "help"}
        table = {option.name: option for option in COMMANDS[command].options}
        assert list(made) == list(table)
        for name, option in table.items():
            assert (made[name].default or None) == option.default
            assert "`" not in made[name].help


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if not option.once])
def test_the_command_that_is_shown_has_every_option(name):
    value = another(OPTIONS[name])
    command = command_for(Path("a.tif"), None, {name: value})
    parsed = vars(build_parser().parse_args(command.split()[1:]))
    assert parsed[name] == value
    given = {other for other, one in parsed.items() if other in OPTIONS and is_given(other, one)}
    assert given == {name, "input"}
    assert (
        command_for(Path("a.tif"), None, {name: OPTIONS[name].default}) == "nlridge denoise a.tif"
    )


def test_zero_is_given():
    command = command_for(Path("a.npy"), None, {"channel_axis": 0, "strength": 0.0, "quality": 0})
    words = command.split()
    for option in ("--channel-axis 0", "--strength 0.0", "--quality 0"):
        assert " ".join(words[words.index(option.split()[0]) :][:2]) == option


@pytest.mark.parametrize("name", [name for name in IN_PYTHON if name != "input"])
def test_messages_name_every_option(name):
    assert with_options(ArgumentError(name, 5, "6")) == f"{OPTIONS[name].flag} is 5; expected 6"
    assert FLAGS[name] == OPTIONS[name].flag


@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_the_studio_has_every_adjustment(name):
    from nlridge.apps.studio.images import result_key
    from nlridge.apps.studio.messages import Settings, checked_settings

    default = checked_settings({}, 64, 64)
    assert default == Settings()
    assert default.as_json()[name] == OPTIONS[name].default
    message = json.loads(json.dumps({**default.as_json(), name: 0.5}))
    changed = checked_settings(message, 64, 64)
    assert changed.as_json() == message
    assert changed.arguments[name] == 0.5
    assert result_key(changed, "fast") != result_key(default, "fast")
    with pytest.raises((ValueError, TypeError), match=f"^{name} is 'x'"):
        checked_settings({name: "x"}, 64, 64)


@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_sliders_include_the_default_and_only_values_that_denoise_takes(name):
    from nlridge.core.algorithm.tuning import Tuning

    least, most, step = OPTIONS[name].slider
    assert least < OPTIONS[name].default < most
    steps = (OPTIONS[name].default - least) / step
    assert steps == pytest.approx(round(steps))
    for end in (least, most):
        Tuning(**{name: end})


def test_the_lines_of_python_have_every_adjustment(tmp_path):
    import numpy as np

    from nlridge.apps.studio.commands import commands_for
    from nlridge.apps.studio.limits import Limits
    from nlridge.apps.studio.messages import checked_settings
    from nlridge.apps.studio.opening import opened

    np.save(tmp_path / "a.npy", np.zeros((16, 16)))
    image = opened(tmp_path / "a.npy", "a.npy", tmp_path / "work", Limits())
    wanted = dict.fromkeys(ADJUSTMENTS, 0.5)
    image.want(settings=checked_settings({"method": "fast", **wanted}, 16, 16))
    lines = commands_for(image)["python"]
    given = dict(re.findall(r", (\w+)=([^,)]+)", lines))
    assert given == {"method": "'fast'", **dict.fromkeys(ADJUSTMENTS, "0.5")}
