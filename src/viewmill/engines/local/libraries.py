"""Libraries of C functions, made of `wordcode` and kept on disk as machine code.

    POOLS = Library("pools")

    @POOLS.export
    def merge(block: Int, _: Int) -> Int: ...

    merge.address           # for compiled code, which calls it by address
    merge(block, 0)         # from Python

A library is compiled as a whole when the first of its addresses is asked for. It is kept in the cache directory, named
by a fingerprint of everything it is made from: the sources here, the compiler, and the processor.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from threading import RLock
from typing import Any, cast

import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir

from viewmill.cache import directory, keep
from viewmill.engines.local.fingerprint import fingerprint
from viewmill.engines.local.wordcode import WordFunction, WordModule

_SPEED = 3
_LONG = 50_000
"""Characters of assembly that may be optimised less, if there are more: it takes a tenth of the time, and such code is
as fast with it, since it mostly waits for memory."""
_A_FEW_PASSES = (
    "always_inliner",
    "sroa",
    "simplify_cfg",
    "instruction_combine",
    "simplify_cfg",
    "dead_code_elimination",
)


class CFunction:
    """`int64 function(int64, ...)` of a library."""

    def __init__(self, library: Library, words: WordFunction) -> None:
        self._library = library
        self._words = words

    @cached_property
    def address(self) -> int:
        return self._library.address(self._words.symbol(len(self._words.parameters)))

    @cached_property
    def _call(self) -> Callable[..., int]:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(self._words.parameters))
        return cast(Callable[..., int], kind(self.address))

    def __call__(self, *arguments: int) -> int:
        return self._call(*arguments)

    @cached_property
    def brief(self) -> Callable[..., int]:
        """The same for calls of a microsecond: other threads of Python wait for them."""
        kind = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(self._words.parameters))
        return cast(Callable[..., int], kind(self.address))

    @property
    def is_at_hand(self) -> bool:
        """Nothing has to be compiled for it."""
        return self._library.is_prepared or self._library.is_kept

    def prepare(self) -> None:
        """Compile it now, in any thread."""
        self._library.prepare()

    def machine_code(self) -> bytes:
        """Of its library: for another process, which takes it as given."""
        return self._library.compiled()

    def give(self, code: bytes) -> None:
        self._library.give(code)


class Library:
    def __init__(self, name: str, *, kept: bool = True, waits: bool = False, branches: bool = False) -> None:
        """What `waits` for memory, somebody may wait for: if it is long, it is compiled in less time.

        What `branches` has loops of a few turns: to unroll them and to make vectors of them gains nothing.
        """
        self.name = name
        self._kept = kept
        self._waits = waits
        self._branches = branches
        self._exports: list[WordFunction] = []
        self._code: bytes | None = None
        self._preparing = RLock()

    def export(self, function: Callable[..., Any] | WordFunction) -> CFunction:
        words = function if isinstance(function, WordFunction) else WordFunction(function, inlined=False)
        self._exports.append(words)
        return CFunction(self, words)

    @property
    def is_prepared(self) -> bool:
        return self._code is not None or "_engine" in self.__dict__

    @property
    def is_kept(self) -> bool:
        return self._kept and self._path.exists()

    def prepare(self) -> None:
        """Compile it, or wait for the thread that does."""
        with self._preparing:
            if not self.is_prepared:
                self._code = self._object()

    def give(self, code: bytes) -> None:
        """Machine code from elsewhere."""
        self._code = code
        if self._kept:
            keep(self._path, code)

    def address(self, symbol: str) -> int:
        return int(self._engine.get_function_address(symbol))

    @cached_property
    def _engine(self) -> Any:
        with self._preparing:
            self.prepare()
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
            engine.add_object_file(llvm.ObjectFileRef.from_data(self._code))
            engine.finalize_object()
            self._code = None
        return engine

    def _object(self) -> bytes:
        """The machine code, from disk if it is there."""
        if not self._kept:
            return self.compiled()
        try:
            return self._path.read_bytes()
        except OSError:
            code = self.compiled()
            keep(self._path, code)
            return code

    @property
    def _path(self) -> Path:
        return directory() / f"{self.name}-{fingerprint()}-{_compiler()}.o"

    def compiled(self) -> bytes:
        """The machine code, made anew."""
        source = ir.Module(self.name)
        for function in self._exports:
            WordModule(source).export(function)
        assembly = str(source)
        module = llvm.parse_assembly(assembly)
        module.verify()
        machine = _machine()
        builder = llvm.create_pass_builder(machine, _simple() if self._branches else _thorough())
        few = self._waits and len(assembly) > _LONG
        (_a_few_passes() if few else builder.getModulePassManager()).run(module, builder)
        return cast(bytes, machine.emit_object(module))


def _thorough() -> Any:
    return llvm.create_pipeline_tuning_options(speed_level=_SPEED)


def _simple() -> Any:
    """Loops stay as they are written."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = options.loop_interleaving = options.loop_vectorization = False
    return options


def _a_few_passes() -> Any:
    manager = llvm.create_new_module_pass_manager()
    for name in _A_FEW_PASSES:
        getattr(manager, f"add_{name}_pass")()
    return manager


@cache
def _processor() -> tuple[str, str]:
    """Its name, and all that it has."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def _compiler() -> str:
    """Says what compiles, and for what."""
    mark = f"{llvmlite.__version__} {' '.join(_processor())}"
    return hashlib.blake2b(mark.encode(), digest_size=8).hexdigest()


def _machine() -> Any:
    """This machine, with all that its processor has."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    static = triple.startswith(("x86", "i386", "i686"))
    name, features = _processor()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=name,
        features=features,
        opt=_SPEED,
        reloc="static" if static else "default",
        codemodel="jitdefault",
        jit=True,
    )
