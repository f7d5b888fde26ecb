"""A small part of Python, compiled without type inference: functions of 64-bit words.

    @inlined_words
    def home(tag: Int, mask: Int) -> Int:
        return shift_right(shift_right(tag, 32) * (mask + 1), 32)
=>
    define internal i64 @home(i64 %tag, i64 %mask) alwaysinline { ... }

Everything is a word, so there is nothing to infer, and the syntax tree becomes LLVM code in one walk. The loops over
record pools are about sixty small functions, and this way they are machine code in under a second.

Words wrap, compare as signed numbers, and are true unless they are 0; `>>` keeps the sign. There are assignments,
`if`, `while`, `for` over a `range` that goes up, `return`, `break` and `continue`, calls of other such functions, of
the instructions in `raw.py`, and of `min` and `max`. A global name, or one of a module, is a constant. A function with
a parameter `*rest` is compiled for each number of words it is called with, and can only pass them on; a tuple stands
for its words. Doubles exist inside a function, as `total = total + double(x)`: a variable is one if its first value is,
and what is returned or passed on is a word. Anything else is refused when it is compiled.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import cached_property
from numbers import Integral
from threading import Lock
from typing import Any, NoReturn

from llvmlite import ir

from viewmill.errors import InternalError

WORD = ir.IntType(64)

_ARITHMETIC = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.Div: "div",  # of doubles
}
_COMPARISON = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_EXTREME: dict[Any, str] = {min: "<", max: ">"}


class WordFunction:
    """A function of words, as source. `WordModule` compiles it."""

    def __init__(self, function: Callable[..., Any], *, inlined: bool) -> None:
        self.name = function.__name__
        self.inlined = inlined
        self._function = function

    @cached_property
    def tree(self) -> ast.FunctionDef:
        return parsed(textwrap.dedent(inspect.getsource(self._function)))

    @property
    def parameters(self) -> list[str]:
        code = self._function.__code__
        return list(code.co_varnames[: code.co_argcount])

    @cached_property
    def assigned(self) -> set[str]:
        """The names of its variables."""
        names = (node for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        return {name.id for name in names if isinstance(name.ctx, ast.Store)}

    @property
    def rest(self) -> str | None:
        """The parameter `*rest`, if there is one."""
        return self.tree.args.vararg.arg if self.tree.args.vararg else None

    def where(self, node: ast.AST) -> str:
        """The file and line of a part of it."""
        code = self._function.__code__
        return f"{code.co_filename}:{code.co_firstlineno + getattr(node, 'lineno', 1) - 1}"

    def symbol(self, arguments: int) -> str:
        """Its name in LLVM code."""
        return f"{self._function.__module__}.{self.name}.{arguments}"

    def named(self, name: str) -> Any:
        """What a global name stands for."""
        values = self._function.__globals__
        return values[name] if name in values else {"min": min, "max": max}.get(name)


_parsing = Lock()


def parsed(text: str) -> ast.FunctionDef:
    """The tree of a function. Of two threads that make trees at once, Python 3.11 may refuse one with a SystemError."""
    with _parsing:
        tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def words(function: Callable[..., Any]) -> Any:
    """A function of words. The compiler decides whether calls of it are calls."""
    return WordFunction(function, inlined=False)


def inlined_words(function: Callable[..., Any]) -> Any:
    """A function of words that is always a part of its callers: if they give it constants, it is made for them."""
    return WordFunction(function, inlined=True)


class SourceFunction(WordFunction):
    """A function of words that was written by a program: its text, and what its global names stand for."""

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        """The text starts with `def name(parameter, ...):`, and is read no further if its machine code is there."""
        head = text.removeprefix("def ").partition(")")[0]
        self.name, _, parameters = head.partition("(")
        self._parameters = [name.strip() for name in parameters.split(",")]
        self.inlined = False
        self._text = text
        self._names = names

    @cached_property
    def tree(self) -> ast.FunctionDef:
        return parsed(self._text)

    @property
    def parameters(self) -> list[str]:
        return self._parameters

    def where(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)}"

    def symbol(self, arguments: int) -> str:
        return self.name

    def named(self, name: str) -> Any:
        return self._names.get(name)


class Instruction:
    """What has no form in Python: LLVM code for some words."""

    def __init__(self, generate: Callable[..., Any]) -> None:
        self.generate = generate


def instruction(generate: Callable[..., Any]) -> Any:
    return Instruction(generate)


@instruction
def shift_right(builder: Any, word: Any, by: Any) -> Any:
    """`>>` of a word without sign."""
    return builder.lshr(word, by)


def _is_double(value: Any) -> bool:
    return isinstance(value.type, ir.DoubleType)


class WordModule:
    """LLVM code of some functions and of all they call, as a part of a module."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module

    def export(self, function: WordFunction) -> None:
        self.function(function, len(function.parameters)).linkage = "external"

    def function(self, function: WordFunction, arguments: int) -> ir.Function:
        """The function for so many arguments."""
        name = function.symbol(arguments)
        if name not in self._module.globals:
            made = ir.Function(self._module, ir.FunctionType(WORD, [WORD] * arguments), name)
            made.linkage = "internal"
            made.attributes.add("nounwind")
            if function.inlined:
                made.attributes.add("alwaysinline")
            _Body(self, function, made).generate()
        return self._module.globals[name]


class _Body:
    """One walk over the tree of a function. Variables are words on the stack, until LLVM knows better."""

    def __init__(self, module: WordModule, function: WordFunction, target: ir.Function) -> None:
        self._module = module
        self._function = function
        self._target = target
        self._builder = ir.IRBuilder(target.append_basic_block("entry"))
        self._variables: dict[str, Any] = {}
        self._loops: list[tuple[Any, Any]] = []  # where `continue` and `break` go

    def generate(self) -> None:
        parameters = self._function.parameters
        for name, value in zip(parameters, self._target.args, strict=self._function.rest is None):
            self._set(name, value)
        self._rest = self._target.args[len(parameters) :]
        self._run(self._function.tree.body)
        if not self._builder.block.is_terminated:
            self._builder.ret(WORD(0))

    def _refuse(self, node: ast.AST) -> NoReturn:
        raise InternalError(f"{self._function.where(node)}: no words for `{ast.unparse(node)}`")

    # Statements

    def _run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self._builder.block.is_terminated:
                return  # after `return`, `break` or `continue`
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(ast.Constant(str())) | ast.Pass():
                pass
            case ast.Expr(value):
                self._value(value)
            case ast.Assign([ast.Name(name)], value):
                self._set(name, self._value(value))
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)) if len(names) == len(values):
                for target, found in zip(names, [self._value(value) for value in values], strict=True):
                    self._set(target.id if isinstance(target, ast.Name) else self._refuse(node), found)
            case ast.AugAssign(ast.Name(name) as target, operator, value):
                left = ast.copy_location(ast.Name(name, ast.Load()), target)
                self._set(name, self._value(ast.copy_location(ast.BinOp(left, operator, value), node)))
            case ast.Return(value):
                self._builder.ret(WORD(0) if value is None else self._value(value))
            case ast.If(test, body, orelse):
                self._if(test, lambda: self._run(body), lambda: self._run(orelse))
            case ast.While(test, body, []):
                self._while(lambda yes, no: self._branch(test, yes, no), lambda: self._run(body), lambda: None)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds, []), body, []):
                self._for(name, bounds, body)
            case ast.Continue():
                self._builder.branch(self._loops[-1][0])
            case ast.Break():
                self._builder.branch(self._loops[-1][1])
            case _:
                self._refuse(node)

    def _blocks(self, *names: str) -> list[Any]:
        return [self._target.append_basic_block(name) for name in names]

    def _if(self, test: ast.expr, yes: Callable[[], object], no: Callable[[], object]) -> None:
        then, otherwise, done = self._blocks("then", "else", "done")
        self._branch(test, then, otherwise)
        reached = False
        for block, body in ((then, yes), (otherwise, no)):
            self._builder.position_at_end(block)
            body()
            if not self._builder.block.is_terminated:
                self._builder.branch(done)
                reached = True
        self._builder.position_at_end(done)
        if not reached:
            self._builder.unreachable()

    def _while(self, test: Callable[[Any, Any], None], body: Callable[[], None], step: Callable[[], None]) -> None:
        start, inside, again, done = self._blocks("while", "body", "again", "done")
        self._builder.branch(start)
        self._builder.position_at_end(start)
        test(inside, done)
        self._builder.position_at_end(inside)
        self._loops.append((again, done))
        body()
        self._loops.pop()
        if not self._builder.block.is_terminated:
            self._builder.branch(again)
        self._builder.position_at_end(again)
        step()
        self._builder.branch(start)
        self._builder.position_at_end(done)

    def _for(self, name: str, bounds: list[ast.expr], body: list[ast.stmt]) -> None:
        values = [self._value(bound) for bound in bounds]
        start, stop = (WORD(0), values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) > 2 else WORD(1)
        counter = self._variable()
        self._builder.store(start, counter)

        def test(yes: Any, no: Any) -> None:
            self._builder.cbranch(self._builder.icmp_signed("<", self._builder.load(counter), stop), yes, no)

        def once() -> None:
            self._set(name, self._builder.load(counter))  # the body may change it
            self._run(body)

        def advance() -> None:
            self._builder.store(self._builder.add(self._builder.load(counter), step), counter)

        self._while(test, once, advance)

    def _variable(self, name: str = "", kind: Any = WORD) -> Any:
        with self._builder.goto_entry_block():
            return self._builder.alloca(kind, name=name)

    def _set(self, name: str, value: Any) -> None:
        if name not in self._variables:
            self._variables[name] = self._variable(name, value.type)
        self._builder.store(value, self._variables[name])

    # Expressions

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(float(value)):
                return ir.DoubleType()(value)
            case ast.Constant(value) if isinstance(value, int):
                return WORD(int(value))
            case ast.Name(name):
                return self._named(name, node)
            case ast.Attribute(ast.Name(module), name):
                return self._constant(getattr(self._function.named(module), name, None), node)
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                return self._arithmetic(_ARITHMETIC[type(operator)], self._value(left), self._value(right))
            case ast.UnaryOp(ast.USub(), operand):
                value = self._value(operand)
                return self._builder.fneg(value) if _is_double(value) else self._builder.neg(value)
            case ast.UnaryOp(ast.Invert(), operand):
                return self._builder.not_(self._value(operand))
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                return self._chosen(node, lambda: WORD(1), lambda: WORD(0))
            case ast.IfExp(test, body, orelse):
                return self._chosen(test, lambda: self._value(body), lambda: self._value(orelse))
            case ast.Call(ast.Name(name), arguments, []):
                return self._call(name, [word for each in arguments for word in self._argument(each)], node)
            case _:
                self._refuse(node)

    def _named(self, name: str, node: ast.expr) -> Any:
        if name in self._variables:
            return self._builder.load(self._variables[name])
        if name in self._function.assigned:
            self._refuse(node)  # before it has a value
        return self._constant(self._function.named(name), node)

    def _constant(self, constant: Any, node: ast.expr) -> Any:
        if not isinstance(constant, Integral):
            self._refuse(node)
        return WORD(int(constant))

    def _arithmetic(self, operation: str, left: Any, right: Any) -> Any:
        if _is_double(left) or _is_double(right):
            left, right = self._doubled(left), self._doubled(right)
            operation = f"f{operation}"
        return getattr(self._builder, operation)(left, right)

    def _doubled(self, value: Any) -> Any:
        return value if _is_double(value) else self._builder.sitofp(value, ir.DoubleType())

    def _chosen(self, test: ast.expr, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        result: list[Any] = []

        def keep(value: Any) -> None:
            if not result:
                result.append(self._variable(kind=value.type))
            self._builder.store(value, result[0])

        self._if(test, lambda: keep(yes()), lambda: keep(no()))
        return self._builder.load(result[0])

    def _argument(self, node: ast.expr) -> list[Any]:
        match node:
            case ast.Starred(ast.Name(name)) if name == self._function.rest:
                return list(self._rest)
            case ast.Tuple(elements):
                return [self._value(each) for each in elements]
            case _:
                return [self._value(node)]

    def _call(self, name: str, arguments: list[Any], node: ast.expr) -> Any:
        called = self._function.named(name)
        if isinstance(called, WordFunction):
            return self._builder.call(self._module.function(called, len(arguments)), arguments)
        if isinstance(called, Instruction):
            return called.generate(self._builder, *arguments)
        if called in _EXTREME:
            left, right = arguments
            return self._builder.select(self._builder.icmp_signed(_EXTREME[called], left, right), left, right)
        self._refuse(node)

    def _compared(self, sign: str, left: Any, right: Any) -> Any:
        if _is_double(left) or _is_double(right):
            compare = self._builder.fcmp_unordered if sign == "!=" else self._builder.fcmp_ordered
            return compare(sign, self._doubled(left), self._doubled(right))
        return self._builder.icmp_signed(sign, left, right)

    def _branch(self, node: ast.expr, yes: Any, no: Any) -> None:
        """Go on at `yes` or at `no`."""
        match node:
            case ast.UnaryOp(ast.Not(), operand):
                self._branch(operand, no, yes)
            case ast.BoolOp(operator, [*firsts, last]):
                for each in firsts:
                    (following,) = self._blocks("and" if isinstance(operator, ast.And) else "or")
                    if isinstance(operator, ast.And):
                        self._branch(each, following, no)
                    else:
                        self._branch(each, yes, following)
                    self._builder.position_at_end(following)
                self._branch(last, yes, no)
            case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISON:
                values = self._value(left), self._value(right)
                self._builder.cbranch(self._compared(_COMPARISON[type(operator)], *values), yes, no)
            case ast.Constant(bool(value)):
                self._builder.branch(yes if value else no)
            case ast.Compare():
                self._refuse(node)
            case _:
                self._builder.cbranch(self._builder.icmp_signed("!=", self._value(node), WORD(0)), yes, no)
