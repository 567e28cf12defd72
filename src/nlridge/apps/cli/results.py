"""What the command line prints about a result: in words, or as JSON."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from ... import CorrelatedNoise, Summary
from ...noise import Noise
from ..jobs.frames import DenoisedClip
from ..jobs.pictures import DenoisedFile
from ..jobs.words import option_of


def summary(result: DenoisedFile | DenoisedClip) -> str:
    if isinstance(result, DenoisedClip):
        how = "denoised together in time, with" if result.together else "the first with"
        words = f"{result.in_words}; {_noise_of_clip(result)}; removed {result.describe_removed(option_of)}"
        return f"{result.frames} frames, {how} {words}, {_speed(result)}{joined(result.notes)}"
    k, details = result.first
    noise = f"{result.in_words}; {details.describe(option_of)}"
    if len(result.frames) > 1:
        which = f"frame {k + 1}" if k else "the first"
        how = (
            f"denoised together in {result.together}, with" if result.together else f"{which} with"
        )
        noise = f"{len(result.frames)} frames, {how} {noise}"
    return f"{noise}, {result.seconds:.2f} s{joined(result.notes)}"


def facts_of_clip(result: DenoisedClip) -> dict[str, str]:
    """What the report says about a video."""
    facts = {
        "noise": f"{result.in_words}; {_noise_of_clip(result)}",
        "removed": result.describe_removed(option_of),
        "time": _speed(result),
    }
    if not result.together:
        facts["noise"] += " in the first frame"
    if result.warnings or result.notes:
        facts["notes"] = "; ".join([*result.warnings, *result.notes])
    return facts


def _noise_of_clip(result: DenoisedClip) -> str:
    words = result.describe_noise()
    return (
        words
        if result.chroma_noise is None
        else f"{words} in luma, {result.chroma_noise} in chroma"
    )


def _speed(result: DenoisedClip) -> str:
    return f"{result.seconds:.2f} s, {result.frames / result.seconds:.2g} frames/s"


def joined(notes: Iterable[str]) -> str:
    return "".join(f"; {note}" for note in notes)


def details(result: DenoisedFile | DenoisedClip) -> dict[str, Any]:
    if isinstance(result, DenoisedClip):
        chroma = result.chroma_noise
        return {
            "frames": result.frames,
            **_frame_details(result),
            "in_words": result.in_words,
            **({} if chroma is None else {"chroma_noise": noise_as_json(chroma)}),
            "seconds": round(result.seconds, 3),
            "notes": [*result.warnings, *result.notes],
        }
    frames = [frame and _frame_details(frame) for frame in result.frames]
    facts = {
        name: [frame and frame[name] for frame in frames]
        for name in _frame_details(result.first[1])
    }
    return {
        **{name: values[0] if len(values) == 1 else values for name, values in facts.items()},
        "in_words": result.in_words,
        "seconds": round(result.seconds, 3),
        "notes": [*result.warnings, *result.notes],
    }


def _frame_details(frame: Summary) -> dict[str, Any]:
    """Return the JSON fields of a frame, or of all frames of a clip."""
    return {
        "noise": noise_as_json(frame.noise),
        "noise_given": frame.noise_given,
        "removed": frame.removed,
        "unchanged": frame.unchanged,
    }


def noise_as_json(noise: Noise) -> dict[str, Any]:
    """Return the fields of a noise model; a correlation is given by its lengths, and a map by its median."""
    fields: dict[str, Any]
    if isinstance(noise, CorrelatedNoise):
        fields = {
            "noise": noise_as_json(noise.noise),
            "lengths": noise.lengths,
            "share": noise.share,
        }
    else:
        fields = {
            name: float(np.nanmedian(value)) if isinstance(value, np.ndarray) else value
            for name, value in asdict(noise).items()  # type: ignore[call-overload]
        }
    return {"kind": type(noise).__name__, **fields, "words": str(noise)}
