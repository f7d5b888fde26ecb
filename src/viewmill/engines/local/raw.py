"""Memory by address, for compiled code.

A pool is a few arrays that may grow and move, so compiled code is given addresses, and reads and writes 64-bit words
there: `peek(base, i)` is the i-th word at `base`. Passing one integer costs a tenth of passing an array, the code is
compiled in no time, and a pool of millions of records is handed over at once. Nothing here checks bounds; the
callers' loops do.

Arithmetic that may not fit reports to a word of *flags* and goes on with what it has. Who runs the code looks at the
flags at the end, and undoes everything if any is set.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from llvmlite import ir

from viewmill.engines.local.wordcode import WORD, instruction

Int: TypeAlias = Any  # int64 in compiled code
Real: TypeAlias = Any  # float64 in compiled code

OVERFLOW = 1  # a number has more than 64 bits, or does not fit its type
ZERO_DIVISOR = 2
FULL = 4  # a pool cannot grow

# Rows are handled in chunks: short loops that hash, then probe, then update let cache misses overlap.
CHUNK = 128

_BYTE = ir.IntType(8)
_HALF = ir.IntType(32)


def _pointer(builder: Any, address: Any, to: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, to.as_pointer()), [index])


@instruction
def peek(builder: Any, base: Any, index: Any) -> Any:
    """The word number `index` at `base`."""
    return builder.load(_pointer(builder, base, WORD, index))


@instruction
def poke(builder: Any, base: Any, index: Any, value: Any) -> Any:
    """Set the word number `index` at `base`."""
    builder.store(value, _pointer(builder, base, WORD, index))
    return value


@instruction
def peek_half(builder: Any, base: Any, index: Any) -> Any:
    """The signed 32-bit number `index` at `base`."""
    return builder.sext(builder.load(_pointer(builder, base, _HALF, index)), WORD)


@instruction
def poke_half(builder: Any, base: Any, index: Any, value: Any) -> Any:
    """Set the 32-bit number `index` at `base`."""
    builder.store(builder.trunc(value, _HALF), _pointer(builder, base, _HALF, index))
    return value


@instruction
def peek_byte(builder: Any, base: Any, index: Any) -> Any:
    """The byte number `index` at `base`, from 0 to 255."""
    return builder.zext(builder.load(_pointer(builder, base, _BYTE, index)), WORD)


@instruction
def poke_byte(builder: Any, base: Any, index: Any, value: Any) -> Any:
    """Set the byte number `index` at `base`."""
    builder.store(builder.trunc(value, _BYTE), _pointer(builder, base, _BYTE, index))
    return value


@instruction
def word_at(builder: Any, address: Any) -> Any:
    """The word at an address of any kind."""
    return builder.load(builder.inttoptr(address, WORD.as_pointer()), align=1)


@instruction
def fold(builder: Any, a: Any, b: Any) -> Any:
    """The upper half of the product of two words, xor the lower half: every bit depends on all bits of both."""
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.xor(builder.trunc(builder.lshr(product, wide(64)), WORD), builder.trunc(product, WORD))


@instruction
def bits(builder: Any, value: Any) -> Any:
    """The bits of a double."""
    return builder.bitcast(value, WORD)


@instruction
def double(builder: Any, code: Any) -> Any:
    """The double with these bits."""
    return builder.bitcast(code, ir.DoubleType())


@instruction
def prefetch(builder: Any, base: Any, index: Any) -> Any:
    """Have the memory at a word fetched, for who reads it soon."""
    pointer = _pointer(builder, base, WORD, index)
    name = "llvm.prefetch.p0"
    if name not in builder.module.globals:
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _HALF, _HALF, _HALF])
        ir.Function(builder.module, kind, name)
    builder.call(builder.module.globals[name], [pointer, _HALF(0), _HALF(3), _HALF(1)])  # to read, to all caches, data
    return WORD(0)


@instruction
def room_for_chunk(builder: Any) -> Any:
    """The address of CHUNK words on the stack, gone when the function returns."""
    with builder.goto_entry_block():
        room = builder.alloca(WORD, size=CHUNK)
    return builder.ptrtoint(room, WORD)


@instruction
def call(builder: Any, function: Any, *arguments: Any) -> Any:
    """Call a C function of words by its address. Its code is not compiled into the caller's."""
    kind = ir.FunctionType(WORD, [WORD] * len(arguments))
    return builder.call(builder.inttoptr(function, kind.as_pointer()), arguments)


def _checked(operation: str) -> Any:
    def generate(builder: Any, a: Any, b: Any, flags: Any) -> Any:
        pair = getattr(builder, f"{operation}_with_overflow")(a, b)
        value = builder.extract_value(pair, 0)
        null = builder.icmp_signed("==", value, WORD(-(2**63)))  # a number, and taken for NULL by who reads it
        with builder.if_then(builder.or_(builder.extract_value(pair, 1), null), likely=False):
            word = builder.inttoptr(flags, WORD.as_pointer())
            builder.store(builder.or_(builder.load(word), WORD(OVERFLOW)), word)
        return value

    return instruction(generate)


add = _checked("sadd")
subtract = _checked("ssub")
multiply = _checked("smul")
