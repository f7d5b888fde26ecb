"""Memory by address, for compiled code.

A pool is a few arrays that may grow and move, so compiled code is given addresses, and reads and writes 64-bit words
there: `peek(base, i)` is the i-th word at `base`. Passing one integer costs a tenth of passing an array, the code is
compiled in half the time, and a pool of millions of records is handed over in no time. Nothing here checks bounds; the
callers' loops do.

Arithmetic that may not fit reports to a word of *flags* and goes on with what it has. Who runs the code looks at the
flags at the end, and undoes everything if any is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils

from viewmill.engines.local.compiling import intrinsic

Int: TypeAlias = Any  # int64 in compiled code
Real: TypeAlias = Any  # float64 in compiled code

OVERFLOW = 1  # a number has more than 64 bits, or does not fit its type
ZERO_DIVISOR = 2
FULL = 4  # a pool cannot grow

# Rows are handled in chunks: short loops that hash, then probe, then update let cache misses overlap.
CHUNK = 128

_WORD = ir.IntType(64)
_BYTE = ir.IntType(8)
_HALF = ir.IntType(32)


def _pointer(builder: Any, address: Any, to: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, to.as_pointer()), [index])


@intrinsic
def peek(context: Any, base: Int, index: Int) -> Any:
    """The word number `index` at `base`."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], _WORD, args[1]))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def poke(context: Any, base: Int, index: Int, value: Int) -> Any:
    """Set the word number `index` at `base`."""

    def generate(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(builder, args[0], _WORD, args[1]))
        return target.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


@intrinsic
def peek_half(context: Any, base: Int, index: Int) -> Any:
    """The signed 32-bit number `index` at `base`."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sext(builder.load(_pointer(builder, args[0], _HALF, args[1])), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def peek_byte(context: Any, base: Int, index: Int) -> Any:
    """The byte number `index` at `base`, from 0 to 255."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, args[0], _BYTE, args[1])), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def poke_byte(context: Any, base: Int, index: Int, value: Int) -> Any:
    def generate(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[2], _BYTE), _pointer(builder, args[0], _BYTE, args[1]))
        return target.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


@intrinsic
def bits(context: Any, value: Real) -> Any:
    """The bits of a double."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _WORD)

    return types.int64(types.float64), generate


@intrinsic
def double(context: Any, code: Int) -> Any:
    """The double with these bits."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def prefetch(context: Any, base: Int, index: Int) -> Any:
    """Fetch the cache line of the word number `index` at `base`, which need not be a valid address."""

    def generate(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(_pointer(builder, args[0], _WORD, args[1]), _BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _HALF, _HALF, _HALF])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, _HALF(0), _HALF(3), _HALF(1)])  # to read, to all caches, data
        return target.get_dummy_value()

    return types.none(types.int64, types.int64), generate


@intrinsic
def room_for_chunk(context: Any) -> Any:
    """The address of CHUNK words on the stack, gone when the function returns."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        alloca: Any = cgutils.alloca_once
        return builder.ptrtoint(alloca(builder, _WORD, size=CHUNK), _WORD)

    return types.int64(), generate


@intrinsic
def call(context: Any, function: Int, first: Int, second: Int) -> Any:
    """Call a C function of two words by its address. Its code is not compiled into the caller's."""

    def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_WORD, [_WORD, _WORD])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], args[2]])

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def call_run(context: Any, function: Int, env: Int, batch: Int, rows: Int, flags: Int) -> Any:
    """Call a generated function by its address."""

    def generate(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return target.get_dummy_value()

    return types.none(*[types.int64] * 5), generate


def _checked(operation: str) -> Any:
    def typed(context: Any, a: Int, b: Int, flags: Int) -> Any:
        def generate(_: Any, builder: Any, signature: Any, args: Any) -> Any:
            both: Callable[..., Any] = getattr(builder, f"{operation}_with_overflow")
            pair = both(args[0], args[1])
            value = builder.extract_value(pair, 0)
            null = builder.icmp_signed("==", value, _WORD(-(2**63)))  # a number, and taken for NULL by who reads it
            with builder.if_then(builder.or_(builder.extract_value(pair, 1), null), likely=False):
                word = builder.inttoptr(args[2], _WORD.as_pointer())
                builder.store(builder.or_(builder.load(word), _WORD(OVERFLOW)), word)
            return value

        return types.int64(types.int64, types.int64, types.int64), generate

    return typed


add = intrinsic(_checked("sadd"))
subtract = intrinsic(_checked("ssub"))
multiply = intrinsic(_checked("smul"))
