"""The CPU that kernels are compiled for, and what it does with vectors, according to LLVM.

The list of features is not enough: the name of a CPU implies further ones, and each architecture has its own.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils


def _target() -> tuple[str, str, str]:
    """The triple, the name and the features by which LLVM knows the CPU that Numba compiles for.

    It is another CPU than that of this machine if NUMBA_CPU_NAME or NUMBA_CPU_FEATURES is set.
    """
    triple, config = binding.get_process_triple(), numba.config
    name = binding.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    if config.CPU_FEATURES is not None:
        return triple, name, config.CPU_FEATURES
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know
        return triple, name, ""
    if not config.ENABLE_AVX:
        features.update({feature: False for feature in features if feature.startswith("avx")})
    return triple, name, features.flatten()


TARGET = _target()

_ONE, _FOUR = ir.FloatType(), ir.VectorType(ir.FloatType(), 4)


def has_vectors(triple: str, cpu: str, features: str) -> bool:
    """Whether a CPU adds four floats at once, rather than one after the other."""
    one, four = (_code(triple, cpu, features, kind, _sum) for kind in (_ONE, _FOUR))
    return len(four) < 2 * len(one)


def fuses(triple: str, cpu: str, features: str) -> bool:
    """Whether x * y + z, as `multiply_add` computes it, is rounded once rather than twice."""
    once, twice = (
        _code(triple, cpu, features, _FOUR, operation) for operation in (multiply_add, _twice)
    )
    return once != twice


def multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """The vector x * y + z, rounded once if the CPU has an instruction for that.

    The function of LLVM that always rounds once would compute it lane by lane, in software, on other CPUs.
    """
    signature = ir.FunctionType(x.type, [x.type] * 3)
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.fmuladd.v{x.type.count}f32"
    )
    return builder.call(function, [x, y, z])


def _sum(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return builder.fadd(builder.fadd(x, y), z)


def _twice(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return builder.fadd(builder.fmul(x, y), z)


def _code(
    triple: str, cpu: str, features: str, kind: ir.Type, operation: Callable[..., Any]
) -> list[str]:
    """The instructions of a function that loads x, y and z, and stores the result of an operation."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [kind.as_pointer()] * 3), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    numbers = [builder.load(pointer, align=4) for pointer in function.args]
    builder.store(operation(builder, *numbers), function.args[0], align=4)
    builder.ret_void()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    lines = machine.emit_assembly(binding.parse_assembly(str(module))).splitlines()
    return [line for line in lines if line.startswith("\t") and not line.startswith("\t.")]
