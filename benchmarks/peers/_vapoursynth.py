"""Filters of VapourSynth, in a process of their own: they need another Python than the benchmarks may have.

Plug-ins that use VapourSynth's interface of version 3 load up to VapourSynth 78.  `make .venv-filters/bench-filters`
installs both.
"""

import atexit
import pickle
import subprocess
import sys
from functools import cache

import numpy as np

if __name__ != "__main__":
    from . import folders


def denoiser(filter, stages, strengths, strength):
    """The function that runs the stages of a filter, each on the clip and on the result of the one before.

    `stages` are names of functions and their options; `strengths` are the best ones at some levels of noise, unless
    `strength` replaces them.
    """

    def seconds_and_result(noisy, sigma):
        chosen = float(strength or np.interp(sigma, list(strengths), list(strengths.values())))
        server = _server(folders.filters / "bin" / "python")
        pickle.dump(
            (noisy[None], [(name, {"sigma": chosen, **o}) for name, o in stages]), server.stdin
        )
        server.stdin.flush()
        answer = pickle.load(server.stdout)
        if isinstance(answer, str):
            raise RuntimeError(f"{filter}: VapourSynth says: {answer}")
        return answer

    def call(noisy, sigma):
        return seconds_and_result(noisy, sigma)[1][0]

    call.processor_seconds = lambda noisy, sigma: seconds_and_result(noisy, sigma)[0]
    return call


@cache
def _server(python):
    """The process that has VapourSynth."""
    missing = subprocess.run(
        [python, "-c", "import vapoursynth as v; v.core.bm3dcpu, v.core.bm3d"], capture_output=True
    ).returncode if python.exists() else True  # fmt: skip
    if missing:
        raise ImportError(
            "filters of VapourSynth need an environment: make .venv-filters/bench-filters"
        )
    server = subprocess.Popen([python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.communicate)  # it ends when its input does
    return server


def _serve(receive, send):
    """Answer each clip, (frames, height, width) from 0 to 255, and stages with the processor seconds and the result."""
    import vapoursynth as vs

    vs.core.num_threads = 1
    while True:
        try:
            frames, stages = pickle.load(receive)
        except EOFError:
            return
        try:
            answer = _run(vs, frames, stages)
        except vs.Error as error:
            answer = str(error)
        pickle.dump(answer, send)
        send.flush()


def _run(vs, frames, stages):
    import time

    count, height, width = frames.shape
    clip = vs.core.std.BlankClip(
        format=vs.GRAYS, width=width, height=height, length=count, keep=True
    )

    def written(n, f):
        frame = f.copy()
        np.asarray(frame[0])[...] = frames[n] / 255
        return frame

    noisy = clip.std.ModifyFrame(clip, written)
    noisy = noisy.std.SetFrameProps(_Matrix=1)
    read = [noisy.get_frame(n) for n in range(count)]  # they stay in VapourSynth's cache
    result, others = noisy, {}
    for name, options in stages:
        plugin, function = name.split(".")
        result = getattr(getattr(vs.core, plugin), function)(noisy, **others, **options)
        others = {"ref": result}
    start = time.process_time()
    done = [np.array(result.get_frame(n)[0]) for n in range(len(read))]
    return time.process_time() - start, 255 * np.stack(done)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
