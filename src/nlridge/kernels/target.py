"""The CPU that kernels are compiled for, and what it does with vectors: LLVM is asked.

A list of features would not tell. The name of a CPU implies more of them, and each architecture has its own.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.registry import cpu_target

# The triple, the name and the features by which LLVM knows the CPU: another one than that of this machine if
# NUMBA_CPU_NAME or NUMBA_CPU_FEATURES is set.
TARGET: tuple[str, str, str] = cpu_target.target_context.codegen().magic_tuple()

_ONE, _FOUR = ir.FloatType(), ir.VectorType(ir.FloatType(), 4)


def has_vectors(triple: str, cpu: str, features: str) -> bool:
    """Whether a CPU adds four floats at once, and not one after the other."""
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
