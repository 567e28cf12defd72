"""What kernels are built from: small matrices, against NumPy; and how kernels are compiled and cached."""

import gc
import os
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba.core.errors import NumbaError

import nlridge
from nlridge import method_names
from nlridge.core.kernels import linalg
from nlridge.core.kernels.compile import kernel
from nlridge.core.kernels.extremes import beyond_neighbours, contrasts
from nlridge.core.kernels.simd import LANES
from nlridge.core.kernels.target import TARGET, fuses, has_vectors
from nlridge.core.patches.groups import normalise
from nlridge.progress import progress_reporter


@kernel
def run_product(C, c_row, A, a_row, a_column, B, rows, columns, length):
    linalg.product(C, 0, c_row, A, 0, a_row, a_column, B, 0, c_row, rows, columns, length)


@kernel
def run_gram(Q, X, side, n, length):
    linalg.gram(Q, X, side, n, length)


@kernel
def run_invert(Q, side, n):
    linalg.invert(Q, side, n)


@kernel
def run_transposed(target, source, rows, columns):
    linalg.transposed(target, source, rows, columns)


@pytest.mark.parametrize("columns", [3, 16, 20, 36, 48, 50, 64, 104])
@pytest.mark.parametrize(("rows", "length"), [(1, 9), (4, 1), (12, 33), (24, 90)])
def test_product(columns, rows, length):
    rng = np.random.default_rng(columns)
    width = -(-columns // LANES) * LANES
    A = rng.normal(size=(rows, length)).astype(np.float32)
    B = np.zeros((length, width), np.float32)
    B[:, :columns] = rng.normal(size=(length, columns))
    for factor, a_row, a_column in ((A, length, 1), (A.T, 1, rows)):
        C = np.full((rows, width), np.nan, np.float32)
        run_product(
            C.reshape(-1), width, np.ascontiguousarray(factor).ravel(), a_row, a_column, B.ravel(),
            rows, columns, length,
        )  # fmt: skip
        np.testing.assert_allclose(C, A.astype(float) @ B, atol=1e-4)


@pytest.mark.parametrize("n", [1, 8, 15, 16, 24, 36, 80, 90])
def test_gram_and_invert(n):
    side = -(-n // LANES) * LANES
    X = np.zeros((n // 2 + 1, side), np.float32)
    X[:, :n] = np.random.default_rng(n).normal(1, 1, size=(len(X), n))
    Q = np.full((side, side), np.nan, np.float32)
    run_gram(Q.reshape(-1), X.ravel(), side, n, len(X))
    exact = X[:, :n].astype(float).T @ X[:, :n]
    np.testing.assert_allclose(np.triu(Q[:n, :n]), np.triu(exact), rtol=1e-5, atol=1e-3)
    Q[np.arange(n), np.arange(n)] += 10
    run_invert(Q.reshape(-1), side, n)
    np.testing.assert_allclose(Q[:n, :n], np.linalg.inv(exact + 10 * np.eye(n)), atol=2e-6)
    assert not Q[:n, n:].any()  # products of whole vectors read the padding


def test_transposed():
    source = np.arange(2 * LANES * 3 * LANES, dtype=np.float32).reshape(2 * LANES, 3 * LANES)
    target = np.empty((3 * LANES, 2 * LANES), np.float32)
    run_transposed(target.reshape(-1), source.reshape(-1), 2 * LANES, 3 * LANES)
    np.testing.assert_array_equal(target, source.T)


# What is kept on disk.

TINY = """
from nlridge.core.kernels.compile import announcing, kernel

@kernel
def twice(x):
    return 2 * x

with announcing(lambda words: print("compiled", end=" ")):
    print(twice(21.0))
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Runs a program with a small kernel, in a process of its own; and the folder of its cache."""
    folder = tmp_path_factory.mktemp("tiny")
    program = folder / "tiny.py"
    program.write_text(TINY)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}

    def run():
        command = [sys.executable, program]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert run().stdout == "compiled 42.0\n"
    assert run().stdout == "42.0\n"
    return run, folder / "cache"


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "damage"),
    [("nbi", "cut short"), ("nbi", "garbage"), ("nbc", "empty"), ("nbc", "one bit")],
)
def test_a_damaged_file_of_the_cache_is_compiled_again(tiny, kind, damage):
    run, cache = tiny
    (file,) = cache.rglob(f"*twice*.{kind}")
    data = file.read_bytes()
    middle = len(data) // 2
    damaged = {
        "empty": b"",
        "cut short": data[:middle],
        "one bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "garbage": b"\x93garbage" * 500,
    }[damage]
    file.write_bytes(damaged)
    again = run()
    assert (again.stdout, again.stderr) == ("compiled 42.0\n", "")
    assert run().stdout == "42.0\n"  # and it is kept


@pytest.mark.slow
def test_a_file_may_be_imported_under_several_names(tmp_path):
    """Code in the cache names its module, which other programs may not find under that name."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "named.py").write_text(TINY)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for folder, name in ((tmp_path, "package.named"), (package, "named")):
        command = [sys.executable, "-c", f"import {name}"]
        for printed in ("compiled 42.0\n", "42.0\n"):
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)  # fmt: skip
            assert (done.stdout, done.stderr) == (printed, "")


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_does_not_stop_the_program(tiny):
    run, cache = tiny
    (file,) = cache.rglob("*twice*.nbi")
    file.unlink()
    file.mkdir()
    done = run()
    file.rmdir()
    assert done.stdout == "compiled 42.0\n"
    assert "RuntimeWarning: nlridge cannot save its compiled kernels" in done.stderr


SAID = "nlridge is compiling for this CPU, once; this takes about ten seconds"


@pytest.mark.long
def test_a_library_that_compiles_logs_it_once(tmp_path):
    """Even if warnings are errors; compilation by other packages is not announced."""
    program = tmp_path / "program.py"
    program.write_text("""
import numba
from nlridge.core.kernels.compile import kernel

@numba.njit
def thrice(x):
    return 3 * x

@kernel
def twice(x):
    return 2 * x

thrice(1)
print("theirs", flush=True)
twice(1.0), twice(1)
print("ours", flush=True)
""")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", program]
    first, second = (
        subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    )
    assert first.stdout == f"theirs\n{SAID}\nours\n"
    assert second.stdout == "theirs\nours\n"


def test_a_progress_bar_says_that_it_compiles(capsys):
    functions = {}
    exec("def twice(x): return 2 * x", functions)  # not in a file, and so never cached
    with progress_reporter(True, 2, "block") as tick:
        kernel(functions["twice"])(1.0)
        said = capsys.readouterr().err
        tick()
    assert "compiling for this CPU" in said
    assert "once" not in said
    assert "nlridge is compiling" not in said + capsys.readouterr().err


@pytest.mark.slow
def test_without_numbas_compiler_nothing_starts():
    """Rather than a TypeError on the way."""
    for command in (["-c", "import nlridge; nlridge.denoise"], ["-m", "nlridge", "methods"]):
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "internals" not in done.stderr  # which are not the reason
        error = done.stderr.splitlines()[-1].partition(": ")[2]
        assert error == "kernels cannot be compiled while NUMBA_DISABLE_JIT is set; unset it to use nlridge"  # fmt: skip


@pytest.mark.slow
def test_a_process_loads_only_what_it_needs():
    """Kernels that are on disk are loaded without what Numba needs to compile, and no others than those of the recipe."""
    program = """
import sys, numpy as np, nlridge
nlridge.denoise(np.random.default_rng(0).normal(100, 20, (40, 40)), 20, method=sys.argv[1], data_range=255)
from nlridge.core.kernels.compile import _kernels
print(sorted(kernel.__name__ for kernel in _kernels if kernel.overloads))
print([name for name in ("scipy.linalg", "numba.np.linalg") if name in sys.modules])
"""
    for method, own in (
        ("fast", ["low_rank_kernel", "ridge_kernel"]),
        ("nl-bayes", ["bayes_kernel"]),
    ):
        for _ in range(2):  # the first one may have to compile
            done = subprocess.run(
                [sys.executable, "-c", program, method], check=True, capture_output=True, text=True
            )
        loaded, imported = done.stdout.splitlines()
        common = ["_denoise_groups", "_tiles", "beyond_neighbours", "match", "normalise"]
        assert eval(loaded) == sorted(common + own)
        assert imported == "[]"


def test_the_garbage_collector_is_as_before_after_compiling():
    functions = {}
    exec("def twice(x): return 2 * x\ndef wrong(x): return x.nothing", functions)
    kernel(functions["twice"])(1.0)
    assert gc.isenabled()
    with pytest.raises(NumbaError):
        kernel(functions["wrong"])(1.0)
    assert gc.isenabled()
    gc.disable()
    try:
        kernel(functions["twice"])(1)
        assert not gc.isenabled()
    finally:
        gc.enable()


# CPUs with other vectors than those of this one.

CPUS = {  # what a CPU must have to stand for another one, and how Numba is told to compile for that
    "SSE2": (["sse2"], "x86-64", ""),
    "generic": (["sse2"], "generic", ""),  # what Numba compiles for where it does not know the CPU
    "AVX": (["avx"], "sandybridge", "+avx"),
    "AVX2": (["avx2", "fma"], "haswell", "+avx,+avx2,+fma"),
}


def run_on(cpu, program):
    """What a program prints if its kernels are compiled for a CPU."""
    required, name, features = CPUS[cpu]
    if not all(llvm.get_host_cpu_features().get(feature, False) for feature in required):
        pytest.skip(f"this CPU has no {cpu}")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("cpu", CPUS)
def test_all_cpus_agree(cpu):
    """Whatever the number of lanes, and with or without fused multiply-add: the same image, but for rounding."""
    if cpu == "AVX2" and LANES == 8:
        pytest.skip("this CPU has no AVX-512, so that its kernels are those for AVX2")
    # With as many lanes, one method will do: kernels are compiled for each CPU.
    methods = list(method_names()) if LANES == 16 and cpu == "AVX2" else ["standard"]
    program = f"""
import numpy as np, nlridge
from nlridge.core.kernels.extremes import beyond_neighbours, contrasts
from nlridge.core.kernels.simd import LANES
y, x = np.mgrid[:60, :80]
noisy = 100 + 50 * np.sin(x / 3) + np.random.default_rng(0).normal(0, 10, x.shape)
values = [nlridge.denoise(noisy, 10, method=m, data_range=255)[20::7, 30::7].tolist() for m in {methods}]
"""
    here = {}
    exec(program, here)
    lanes, values = eval(run_on(cpu, program + "print([LANES, values])"))
    assert lanes == 8
    np.testing.assert_allclose(values, here["values"], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("cpu", CPUS)
def test_vectors_are_multiplied_and_added_without_calls(cpu):
    """A CPU without fused multiply-add must not emulate it in software, lane by lane: that took 25 times as long."""
    program = """
import numpy as np
from nlridge.core.kernels.compile import kernel
from nlridge.core.kernels.simd import LANES, fma, load, store
@kernel
def run(values):
    store(values, 0, fma(load(values, 0), load(values, LANES), load(values, 2 * LANES)))
values = np.repeat(np.float32([2, 3, 4]), LANES)
run(values)
assert (values[:LANES] == 10).all()
(code,) = run.inspect_asm().values()
print(*[name for name in ("fmaf", "mulps", "vmulps", "vfmadd213ps") if "\\t" + name in code or "$" + name in code])
"""
    expected = {"SSE2": "mulps", "generic": "mulps", "AVX": "vmulps", "AVX2": "vfmadd213ps"}[cpu]
    assert run_on(cpu, program).split() == [expected]


def test_what_other_cpus_do_with_vectors():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    intel, arm, risc = (
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "riscv64-unknown-linux-gnu",
    )
    assert has_vectors(*TARGET)
    for target, vectors, fused in [
        ((intel, "generic", ""), True, False),
        ((intel, "generic", "+avx"), True, False),
        ((intel, "haswell", ""), True, True),
        ((arm, "generic", ""), True, True),
        ((risc, "generic-rv64", "+f,+d"), False, True),
        (("i686-unknown-linux-gnu", "i686", ""), False, None),
    ]:
        assert has_vectors(*target) == vectors
        assert fused is None or fuses(*target) == fused


@pytest.mark.slow
def test_a_cpu_without_vectors_is_slow_and_this_is_said_once():
    program = """
from nlridge.core.kernels import compile
compile.TARGET = ("riscv64-unknown-linux-gnu", "generic-rv64", "+f,+d")
import llvmlite.binding as llvm
llvm.initialize_all_targets(), llvm.initialize_all_asmprinters()
double = compile.kernel(lambda x: 2 * x)
print(double(1), double(1.5))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "2 3.0\n"
    said = "nlridge finds no vector instructions on this CPU, and takes several times as long as on one that has them"  # fmt: skip
    assert done.stderr.splitlines().count(said) == 1


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_of_loading():
    """Two kernels are made of the same parts; each has to use its own copies."""
    program = (
        "import sys, hashlib, numpy as np, nlridge\n"
        "image = np.random.default_rng(0).normal(100, 20, (60, 60))\n"
        "for method in sys.argv[1:]:\n"
        "    clean = nlridge.denoise(image, 20, method=method, data_range=255)\n"
        "print(hashlib.sha256(clean.tobytes()).hexdigest())"
    )
    runs = [["nl-ridge"], ["nl-bayes", "nl-ridge"]]
    digests = {
        subprocess.run(
            [sys.executable, "-c", program, *run], check=True, capture_output=True
        ).stdout
        for run in runs
    }
    assert len(digests) == 1


@pytest.mark.slow
def test_threads_find_the_types_of_numba_registered():
    """A thread that registers types while another looks one up would make the call fail."""
    program = (
        "import nlridge.core.engines.groups\n"
        "from numba.core.typing.typeof import typeof_impl\n"
        "before = len(typeof_impl.registry)\n"
        "import numba.experimental.function_type\n"
        "assert len(typeof_impl.registry) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("axes", [{}, {"time_axis": 0}])
def test_transposed_images_need_no_kernels_of_their_own(axes):
    """They would be compiled at the first image whose columns are stored one after the other."""
    image = np.random.default_rng(0).normal(100, 10, (3, 48, 56)[0 if axes else 1 :])
    image[..., ::5, ::7] = 900
    used = beyond_neighbours, contrasts, normalise
    nlridge.denoise(image, 10, method="fast", **axes)
    before = [list(kernel.signatures) for kernel in used]
    assert all(before)
    nlridge.denoise(np.asfortranarray(image), 10, method="fast", **axes)
    assert [list(kernel.signatures) for kernel in used] == before
