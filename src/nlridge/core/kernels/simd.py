"""Vectors of float32 as a Numba type, so that SIMD kernels can be written in plain Python.

All explicit SIMD of the package is in this file. `LANES` is the natural vector width of the CPU that
the kernels are compiled for; LLVM translates the vectors to AVX-512, AVX2 or AVX, or to pairs of vectors
of SSE2 or NEON. Operations take a flat array and an offset into it, and check neither: callers pad their
buffers.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from .compile import before_kernels, kernel, prepare
from .target import TARGET, multiply_add

LANES = 16 if "+avx512f" in str(TARGET[2]) else 8
NARROW = 8  # a vector of 8 lanes takes half the time of one of 16

_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_NARROW = ir.VectorType(ir.FloatType(), NARROW)
_UNDEFINED = ir.Constant(_FLOATS, ir.Undefined)
_ZERO = ir.Constant(_FLOATS, [0.0] * LANES)


class _Vector(types.Type):
    def __init__(self, lanes: int) -> None:
        super().__init__(name=f"float32x{lanes}")
        self.lanes = lanes


vector, narrow_vector = _Vector(LANES), _Vector(NARROW)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.VectorType(ir.FloatType(), fe_type.lanes))


# Helpers of the intrinsics below, from LLVM values to LLVM values.


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def _load(builder: Any, data: Any, offset: Any, kind: Any = _FLOATS) -> Any:
    pointer = builder.bitcast(builder.gep(data, [offset]), kind.as_pointer())
    return builder.load(pointer, align=4)


def _store(builder: Any, value: Any, data: Any, offset: Any) -> None:
    pointer = builder.bitcast(builder.gep(data, [offset]), value.type.as_pointer())
    builder.store(value, pointer, align=4)


def _shuffle(builder: Any, first: Any, second: Any, lanes: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_LANE, len(lanes)), lanes)
    return builder.shuffle_vector(first, second, mask)


def _splat(builder: Any, scalar: Any, kind: Any = _FLOATS) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(_LANE, 0))
    return _shuffle(builder, one, undefined, [0] * kind.count)


def _whole(builder: Any, narrow: Any) -> Any:
    """A narrow vector, extended by zeros."""
    count = narrow.type.count
    lanes = [min(lane, count) for lane in range(LANES)]
    return _shuffle(builder, narrow, ir.Constant(narrow.type, None), lanes)


def _larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _times(builder: Any, index: Any, factor: int) -> Any:
    return builder.mul(index, ir.Constant(_INDEX, factor))


# Operations on single vectors.


@intrinsic
def load(context, array, offset):
    """The vector at array[offset:]."""

    def generate(context, builder, signature, args):
        return _load(builder, _data(context, builder, signature.args[0], args[0]), args[1])

    return vector(array, types.intp), generate


@intrinsic
def load_narrow(context, array, offset):
    """The narrow vector at array[offset:]."""

    def generate(context, builder, signature, args):
        data = _data(context, builder, signature.args[0], args[0])
        return _load(builder, data, args[1], _NARROW)

    return narrow_vector(array, types.intp), generate


@intrinsic
def store(context, array, offset, value):
    """Write a vector, or a narrow one, to array[offset:]."""

    def generate(context, builder, signature, args):
        _store(builder, args[2], _data(context, builder, signature.args[0], args[0]), args[1])
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def splat(context, scalar):
    """A vector of equal lanes."""

    def generate(context, builder, signature, args):
        return _splat(builder, args[0])

    return vector(types.float32), generate


@intrinsic
def splat_narrow(context, scalar):
    """A narrow vector of equal lanes."""

    def generate(context, builder, signature, args):
        return _splat(builder, args[0], _NARROW)

    return narrow_vector(types.float32), generate


@intrinsic
def fma(context, x, y, z):
    """x * y + z, rounded once or twice: see `multiply_add`."""

    def generate(context, builder, signature, args):
        return multiply_add(builder, *args)

    return x(x, x, x), generate


@intrinsic
def larger(context, x, y):
    """The larger of x and y in each lane."""

    def generate(context, builder, signature, args):
        return _larger(builder, *args)

    return vector(vector, vector), generate


def _reduce(operation: Callable[..., Any]) -> Any:
    @intrinsic
    def reduction(context, x):
        def generate(context, builder, signature, args):
            value, half = args[0], x.lanes // 2
            while half:
                lanes = [(lane + half) % x.lanes for lane in range(x.lanes)]
                value = operation(builder, value, _shuffle(builder, value, value, lanes))
                half //= 2
            return builder.extract_element(value, ir.Constant(_LANE, 0))

        return types.float32(x), generate

    return reduction


total = _reduce(lambda builder, x, y: builder.fadd(x, y))  # the sum of the lanes
largest = _reduce(_larger)  # the largest of the lanes


@intrinsic
def at_most_bits(context, x, y):
    """An integer whose bit l is set if x <= y in lane l."""

    def generate(context, builder, signature, args):
        bits = builder.bitcast(builder.fcmp_ordered("<=", *args), ir.IntType(LANES))
        return builder.zext(bits, _LANE)

    return types.uint32(vector, vector), generate


@intrinsic
def lowest_bit(context, bits):
    """The position of the lowest set bit."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.cttz(args[0], ir.Constant(ir.IntType(1), 1)), _INDEX)

    return types.intp(types.uint32), generate


@intrinsic
def count_bits(context, bits):
    """The number of set bits."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.ctpop(args[0]), _INDEX)

    return types.intp(types.uint32), generate


@intrinsic
def bits_of(context, number):
    """The bits of a float32 as an integer; non-negative numbers keep their order."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], _LANE)

    return types.int32(types.float32), generate


@intrinsic
def number_of(context, bits):
    """The float32 that has these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


def _arithmetic(python_operator: Callable[..., Any], instruction: str) -> None:
    @type_callable(python_operator)
    def type_of_result(context):
        def typer(x, y):
            return x if isinstance(x, _Vector) and x == y else None

        return typer

    @lower_builtin(python_operator, _Vector, _Vector)
    def generate(context, builder, signature, args):
        return getattr(builder, instruction)(*args)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")


# Operations on blocks, which would spill registers or be unreadable if written one vector at a time.


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    rows = list(rows)
    step = 1
    while step < LANES:  # swap the off-diagonal blocks of side `step`
        low = [i if not i & step else i - step + LANES for i in range(LANES)]
        high = [i + step if not i & step else i + LANES for i in range(LANES)]
        for i in range(LANES):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i] = _shuffle(builder, a, b, low)
                rows[i + step] = _shuffle(builder, a, b, high)
        step *= 2
    return rows


@intrinsic
def transpose(context, target, to, target_row, source, frm, source_row):
    """target = source', both LANES x LANES."""

    def generate(context, builder, signature, args):
        out, into = (_data(context, builder, signature.args[i], args[i]) for i in (0, 3))
        places = [builder.add(args[4], _times(builder, args[5], i)) for i in range(LANES)]
        rows = _transposed(builder, [_load(builder, into, place) for place in places])
        for i, row in enumerate(rows):
            _store(builder, row, out, builder.add(args[1], _times(builder, args[2], i)))
        return context.get_dummy_value()

    index = types.intp
    return types.void(target, index, index, source, index, index), generate


@intrinsic
def transpose_difference(context, target, to, target_row, source, frm, source_row, x, y):
    """target = (source - x - y)', where the vectors x and y are subtracted, in turn, from each row."""

    def generate(context, builder, signature, args):
        out, into = (_data(context, builder, signature.args[i], args[i]) for i in (0, 3))
        places = [builder.add(args[4], _times(builder, args[5], i)) for i in range(LANES)]
        rows = [
            builder.fsub(builder.fsub(_load(builder, into, place), args[6]), args[7])
            for place in places
        ]
        for i, row in enumerate(_transposed(builder, rows)):
            _store(builder, row, out, builder.add(args[1], _times(builder, args[2], i)))
        return context.get_dummy_value()

    index = types.intp
    return types.void(target, index, index, source, index, index, vector, vector), generate


def inverse_factor_tile(count: int) -> Any:
    """A function that replaces a symmetric positive definite S of `count` rows by inv(chol(S)), in registers.

    This is forward elimination on [S | I]. Columns left of the pivot hold the right half. The multipliers of a pivot are
    read from its own row, since the rest of S stays symmetric. Zeros are written above the diagonal.
    """

    @intrinsic
    def tile(context, S, s, s_row):
        def generate(context, builder, signature, args):
            data = _data(context, builder, signature.args[0], args[0])
            places = [builder.add(args[1], _times(builder, args[2], i)) for i in range(count)]
            rows = [_load(builder, data, place) for place in places]
            one = ir.Constant(ir.FloatType(), 1.0)
            square_root = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.FloatType(), [ir.FloatType()]), "llvm.sqrt.f32"
            )
            for k in range(count):
                lane = ir.Constant(_LANE, k)
                inverse = builder.fdiv(one, builder.extract_element(rows[k], lane))
                multipliers = builder.fmul(rows[k], _splat(builder, builder.fneg(inverse)))
                pivot_row = builder.insert_element(rows[k], one, lane)
                for i in range(k + 1, count):
                    multiplier = _shuffle(builder, multipliers, _UNDEFINED, [i] * LANES)
                    others = [LANES if j == k else j for j in range(LANES)]
                    row = _shuffle(builder, rows[i], _ZERO, others)
                    rows[i] = multiply_add(builder, multiplier, pivot_row, row)
                left = [j if j <= k else LANES for j in range(LANES)]
                scale = _splat(builder, builder.call(square_root, [inverse]))
                rows[k] = builder.fmul(_shuffle(builder, pivot_row, _ZERO, left), scale)
            for row, place in zip(rows, places, strict=True):
                _store(builder, row, data, place)
            return context.get_dummy_value()

        return types.void(S, types.intp, types.intp), generate

    return tile


# The tiles of a product, as large as the registers allow: their number of rows, and of columns in units of NARROW.
# Remaining rows, fewer than the height of a tile, take lower tiles, and a single row has tiles of its own.
TALL, WIDE = (8, 6) if LANES == 16 else (4, 3)
_UNITS = LANES // NARROW  # in a vector
_TILES = [(rows, width) for rows in {TALL, 4} for width in range(1, WIDE + 1)] + [
    (1, vectors * _UNITS) for vectors in (1, 2, 4, 6)
]


@intrinsic
def product_tile(
    context, rows, width, C, c, c_row, A, a, a_row, a_column, B, b, b_row, length, subtract
):
    """A tile of C = A B, or of C -= A B if `subtract` is not 0, in registers.

    It has `rows` rows and `width` NARROW columns: see `_TILES`. Element (i, k) of A is at a + i a_row + k a_column, row
    k of B at b + k b_row. C is written in whole vectors: columns beyond the tile become 0, or stay as they are.

    The code for all tiles is compiled once, in `_tiles`; kernels call it by name.
    """
    prepare()

    def generate(context, builder, signature, args):
        rows, width, _, c, c_row, _, a, a_row, a_column, _, b, b_row, length, subtract = args
        C, A, B = (
            builder.gep(_data(context, builder, signature.args[i], args[i]), [offset])
            for i, offset in ((2, c), (5, a), (9, b))
        )
        tile = cgutils.get_or_insert_function(builder.module, _TILE, _TILE_NAME)
        which = builder.add(_times(builder, rows, 16), width)
        builder.call(tile, [which, C, c_row, A, a_row, a_column, B, b_row, length, subtract])
        return context.get_dummy_value()

    x = types.intp
    return types.void(x, x, C, x, x, A, x, x, x, B, x, x, x, x), generate


_POINTER = ir.FloatType().as_pointer()
_TILE_NAME = "nlridge_product_tile"
_TILE = ir.FunctionType(
    ir.VoidType(),
    [_INDEX, _POINTER, _INDEX, _POINTER, _INDEX, _INDEX, _POINTER, _INDEX, _INDEX, _INDEX],
)


@kernel
def _tiles():
    return _tiles_address()


@intrinsic
def _tiles_address(context):
    """The address of a function that computes the tiles."""

    def generate(context, builder, signature, args):
        tile = ir.Function(builder.module, _TILE, _TILE_NAME + "_code")
        tile.linkage = "internal"
        _define_tiles(tile)
        return builder.ptrtoint(tile, _INDEX)

    return types.intp(), generate


def _define_tiles(function: Any) -> None:
    which, C, c_row, A, a_row, a_column, B, b_row, length, subtract = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    end = function.append_basic_block()
    choice = builder.switch(which, end)
    for rows, width in _TILES:
        block = function.append_basic_block()
        choice.add_case(ir.Constant(_INDEX, 16 * rows + width), block)
        builder.position_at_end(block)
        kinds = [_FLOATS] * (width // _UNITS) + [_NARROW] * (width % _UNITS)
        sums = [
            [cgutils.alloca_once(builder, kind, name="sum") for kind in kinds] for _ in range(rows)
        ]
        for row in sums:
            for s, kind in zip(row, kinds, strict=True):
                builder.store(ir.Constant(kind, None), s)
        with cgutils.for_range(builder, length) as loop:
            left = builder.mul(loop.index, a_column)
            right = builder.mul(loop.index, b_row)
            terms = [
                _load(builder, B, builder.add(right, ir.Constant(_INDEX, LANES * v)), kind)
                for v, kind in enumerate(kinds)
            ]
            for i, row in enumerate(sums):
                place = builder.add(left, _times(builder, a_row, i))
                factor = builder.load(builder.gep(A, [place]))
                for s, term in zip(row, terms, strict=True):
                    factors = _splat(builder, factor, term.type)
                    builder.store(multiply_add(builder, factors, term, builder.load(s)), s)
        results = [
            (
                builder.add(_times(builder, c_row, i), ir.Constant(_INDEX, LANES * v)),
                _whole(builder, builder.load(s)),
            )
            for i, row in enumerate(sums)
            for v, s in enumerate(row)
        ]
        with builder.if_else(cgutils.is_not_null(builder, subtract)) as (then, otherwise):
            with then:
                for place, value in results:
                    _store(builder, builder.fsub(_load(builder, C, place), value), C, place)
            with otherwise:
                for place, value in results:
                    _store(builder, value, C, place)
        builder.branch(end)
    builder.position_at_end(end)
    builder.ret_void()


@before_kernels
def _name_tiles() -> None:
    """Give the code of the tiles the name by which kernels call it."""
    add_symbol(_TILE_NAME, _tiles())


def distance_tile(vectors: int, widths: tuple[int, int] | None = None) -> Any:
    """A function that compares a strip of an image with the strips displaced by 0 .. vectors LANES - 1.

    A strip has a head and a tail, side by side. With e(d) the sum of (image[here] - image[there + d])² over the
    pixels of a part, heads[o + d] = e(d) of the head and wholes[o + d] = e(d) of both. If the `widths` of head and
    tail are given, the loop over columns is unrolled; the sums are the same.
    """

    @intrinsic
    def tile(context, heads, wholes, o, image, here, there, image_row, rows, head, tail):
        def generate(context, builder, signature, args):
            _, _, o, _, here, there, image_row, rows, head, tail = args
            heads, wholes, image = (
                _data(context, builder, signature.args[i], args[i]) for i in (0, 1, 3)
            )
            parts = [
                [cgutils.alloca_once_value(builder, _ZERO) for _ in range(vectors)]
                for _ in range(2)
            ]

            def add_pixel(sums, shift):
                place = builder.add(here, shift)
                pixel = _splat(builder, builder.load(builder.gep(image, [place])))
                first = builder.add(there, shift)
                for v, s in enumerate(sums):
                    place = builder.add(first, ir.Constant(_INDEX, LANES * v))
                    e = builder.fsub(pixel, _load(builder, image, place))
                    builder.store(multiply_add(builder, e, e, builder.load(s)), s)

            with cgutils.for_range(builder, rows) as row:
                down = builder.mul(row.index, image_row)
                if widths:
                    for column in range(sum(widths)):
                        sums = parts[0] if column < widths[0] else parts[1]
                        add_pixel(sums, builder.add(down, ir.Constant(_INDEX, column)))
                else:
                    with cgutils.for_range(builder, head) as column:
                        add_pixel(parts[0], builder.add(down, column.index))
                    start = builder.add(down, head)
                    with cgutils.for_range(builder, tail) as column:
                        add_pixel(parts[1], builder.add(start, column.index))
            for v in range(vectors):
                place = builder.add(o, ir.Constant(_INDEX, LANES * v))
                of_head, of_tail = (builder.load(sums[v]) for sums in parts)
                _store(builder, of_head, heads, place)
                _store(builder, builder.fadd(of_head, of_tail), wholes, place)
            return context.get_dummy_value()

        x = types.intp
        return types.void(heads, wholes, x, image, x, x, x, x, x, x), generate

    return tile
