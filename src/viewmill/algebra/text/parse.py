"""Text to expressions: recursive descent, one method for each rule of the grammar.

expr   := term { (+ | -) term }                     term := factor { * factor }
factor := R(column, ...) | d_R(column, ...) | Sum[name, ...](expr) | Exists(expr) | After(expr)
        | TopK[key, ...; count, count](expr)        key := name [desc] [nulls (first | last)]
        | (name := expr) | (name := min name of expr) | (expr) | {scalar} | [scalar] | name | constant
scalar := or, and, not, comparisons, + and -, * / % div, minus, primary: each level over the next
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NoReturn, TypeVar

from viewmill.algebra.build import product, sum_
from viewmill.algebra.nodes import (
    After,
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Relation,
    SortBy,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.text.words import (
    RESERVED,
    TYPED,
    Token,
    read_bytes,
    read_number,
    read_string,
    read_typed,
    tokens,
)
from viewmill.errors import ParseError, Span
from viewmill.types import Type

T = TypeVar("T")

MINUS_ONE = Value(Const(-1))
_CONSTANTS = {"null": None, "true": True, "false": False}


def parse(text: str) -> Expr:
    return _whole(text, lambda parser: parser.expr())


def parse_scalar(text: str) -> Scalar:
    return _whole(text, lambda parser: parser.scalar())


def _whole(text: str, rule: Callable[[_Parser], T]) -> T:
    parser = _Parser(text)
    found = rule(parser)
    if parser.token.kind != "end":
        parser.fail("expected the end")
    return found


class _Parser:
    """A text and a place in it. Every method reads one rule and leaves the place behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    # --- the place

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def ahead(self, count: int) -> Token:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self.token
        self._at += token.kind != "end"
        return token

    def accept(self, *words: str) -> str | None:
        """Step over the next token if it is one of the words."""
        return self.take().word if self.token.word in words else None

    def expect(self, word: str) -> None:
        if self.accept(word) is None:
            self.fail(f"expected {word!r}")

    def fail(self, expectation: str, token: Token | None = None) -> NoReturn:
        token = token or self.token
        found = "the text ends" if token.kind == "end" else f"found {self._text[token.start : token.end]!r}"
        raise ParseError(f"{expectation}, {found}", span=Span(self._text, token.start, token.end))

    def list_of(self, item: Callable[[], T], end: str) -> tuple[T, ...]:
        """`item, item, ... end`, possibly empty."""
        items: list[T] = []
        while self.accept(end) is None:
            if items:
                self.expect(",")
            items.append(item())
        return tuple(items)

    def name(self) -> str:
        token = self.take()
        if token.kind == "quoted" or (token.kind == "name" and token.word not in RESERVED):
            return token.text
        self.fail("expected a name", token)

    # --- expressions

    def expr(self) -> Expr:
        terms = [self.term()]
        while (sign := self.accept("+", "-")) is not None:
            term = self.term()
            terms.append(term if sign == "+" else product(MINUS_ONE, term))
        return sum_(terms)

    def term(self) -> Expr:
        factors = [self.factor()]
        while self.accept("*"):
            factors.append(self.factor())
        return product(*factors)

    def factor(self) -> Expr:
        match self.token.word:
            case "{":
                self.take()
                return Test(self.closed(self.scalar, "}"))
            case "[":
                self.take()
                return Value(self.closed(self.scalar, "]"))
            case "(":
                self.take()
                is_binding = self.ahead(1).word == ":="
                return self.closed(self.binding if is_binding else self.expr, ")")
            case "sum" | "exists" | "after":
                return self.operator()
            case "topk":
                return self.top_k()
            case _:
                return self.relation() if self.is_relation() else Value(self.atom())

    def closed(self, rule: Callable[[], T], end: str) -> T:
        found = rule()
        self.expect(end)
        return found

    def binding(self) -> Expr:
        var = self.name()
        self.expect(":=")
        kind: Literal["min", "max"] | None = None
        match self.accept("min", "max"):
            case "min":
                kind = "min"
            case "max":
                kind = "max"
        if kind is None:
            return Lift(var, self.expr())
        of = self.name()
        self.expect("of")
        return Extreme(var, kind, of, self.expr())

    def operator(self) -> Expr:
        word = self.take().word
        group: tuple[str, ...] = ()
        if word == "sum":
            self.expect("[")
            group = self.list_of(self.name, "]")
        self.expect("(")
        body = self.closed(self.expr, ")")
        match word:
            case "sum":
                return AggSum(group, body)
            case "exists":
                return Exists(body)
            case _:
                return After(body)

    def top_k(self) -> Expr:
        self.take()
        self.expect("[")
        order = self.list_of(self.sort_key, ";")
        limit = None if self.accept("all") else self.integer()
        offset = self.integer() if self.accept(",") else 0
        self.expect("]")
        self.expect("(")
        return TopK(order, limit, offset, self.closed(self.expr, ")"))

    def sort_key(self) -> SortBy:
        var = self.name()
        descending = self.accept("desc") is not None
        nulls_first = not descending
        if self.accept("nulls"):
            nulls_first = self.accept("first") is not None
            if not nulls_first:
                self.expect("last")
        return SortBy(var, descending, nulls_first)

    def is_quoted_delta(self) -> bool:
        """At d_`name`."""
        after = self.ahead(1)
        return self.token.word == "d_" and after.kind == "quoted" and after.start == self.token.end

    def is_relation(self) -> bool:
        return self.is_quoted_delta() or (self.token.kind in ("name", "quoted") and self.ahead(1).word == "(")

    def relation(self) -> Expr:
        if self.is_quoted_delta():
            self.take()
            return DeltaRelation(self.take().text, *self.columns())
        is_delta = self.token.kind == "name" and self.token.word.startswith("d_")
        name = self.name()
        return DeltaRelation(name[2:], *self.columns()) if is_delta else Relation(name, *self.columns())

    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Fields and variables."""
        self.expect("(")
        pairs = self.list_of(self.column, ")")
        return tuple(field for field, _ in pairs), tuple(var for _, var in pairs)

    def column(self) -> tuple[str, str]:
        field = self.name()
        return field, self.name() if self.accept(":") else field

    # --- scalars

    def scalar(self) -> Scalar:
        return self.chain("or", lambda: self.chain("and", self.negation))

    def chain(self, op: str, operand: Callable[[], Scalar]) -> Scalar:
        """`a or b or c` is one call of three arguments."""
        args = [operand()]
        while self.accept(op):
            args.append(operand())
        return args[0] if len(args) == 1 else Call(op, tuple(args))

    def negation(self) -> Scalar:
        return Call("not", (self.negation(),)) if self.accept("not") else self.comparison()

    def comparison(self) -> Scalar:
        left = self.additive()
        if (op := self.accept("=", "<>", "<", "<=", ">", ">=", "<=>")) is not None:
            return Call(op, (left, self.additive()))
        if self.accept("is"):
            return self.is_null(left)
        if self.accept("not"):
            return Call("not", (self.condition(left) or self.fail("expected 'in' or 'like'"),))
        return self.condition(left) or left

    def is_null(self, left: Scalar) -> Scalar:
        is_not = self.accept("not")
        self.expect("null")
        test = Call("is_null", (left,))
        return Call("not", (test,)) if is_not else test

    def condition(self, left: Scalar) -> Scalar | None:
        """The rest of `left in (...)` or `left like ...`; None if something else follows."""
        if self.accept("in"):
            self.expect("(")
            return Call("in", (left, *self.list_of(self.scalar, ")")))
        if (op := self.accept("like", "ilike", "rlike")) is not None:
            pattern = self.additive()
            escape = (self.additive(),) if self.accept("escape") else ()
            return Call(op, (left, pattern, *escape))
        return None

    def additive(self) -> Scalar:
        return self.left_to_right(("+", "-"), self.multiplicative)

    def multiplicative(self) -> Scalar:
        return self.left_to_right(("*", "/", "%", "div"), self.prefix)

    def left_to_right(self, ops: tuple[str, ...], operand: Callable[[], Scalar]) -> Scalar:
        left = operand()
        while (op := self.accept(*ops)) is not None:
            left = Call(op, (left, operand()))
        return left

    def prefix(self) -> Scalar:
        if self.token.word == "-" and self.ahead(1).kind != "number":
            self.take()
            return Call("neg", (self.prefix(),))
        return self.primary()

    def primary(self) -> Scalar:
        match self.token.word:
            case "(":
                self.take()
                return self.closed(self.scalar, ")")
            case "case":
                return self.case()
            case "cast":
                return self.cast()
            case _ if self.token.kind in ("name", "quoted") and self.ahead(1).word == "(":
                op = self.name()
                self.take()
                return Call(op, self.list_of(self.scalar, ")"))
            case _:
                return self.atom()

    def case(self) -> Scalar:
        self.take()
        args: list[Scalar] = []
        while self.accept("when"):
            args.append(self.closed(self.scalar, "then"))
            args.append(self.scalar())
        if not args:
            self.fail("expected 'when'")
        self.expect("else")
        return Call("case", (*args, self.closed(self.scalar, "end")))

    def cast(self) -> Scalar:
        self.take()
        self.expect("(")
        arg = self.closed(self.scalar, "as")
        return Cast(arg, self.closed(self.type, ")"))

    def type(self) -> Type:
        name = self.name()
        if not self.accept("("):
            return Type(name)
        precision = self.integer()
        self.expect(",")
        return Type(name, precision, self.closed(self.integer, ")"))

    def integer(self) -> int:
        token = self.take()
        if token.kind != "number" or not token.text.isdigit():
            self.fail("expected an integer", token)
        return int(token.text)

    def atom(self) -> Scalar:
        """A variable or a constant."""
        token = self.token
        match token.kind:
            case "number":
                return Const(read_number(self.take().text))
            case "symbol" if token.text == "-" and self.ahead(1).kind == "number":
                self.take()
                return Const(read_number("-" + self.take().text))
            case "string":
                return Const(read_string(self.take().text))
            case "bytes":
                return Const(self.bytes())
            case "name" if token.word in _CONSTANTS:
                return Const(_CONSTANTS[self.take().word])
            case "name" if token.word in TYPED and self.ahead(1).kind == "string":
                return Const(self.typed())
            case "name" | "quoted":
                return Var(self.name())
            case _:
                self.fail("expected an expression")

    def bytes(self) -> bytes:
        token = self.take()
        try:
            return read_bytes(token.text)
        except ValueError:
            self.fail("expected pairs of hexadecimal digits", token)

    def typed(self) -> object:
        kind, token = self.take().word, self.take()
        try:
            return read_typed(kind, read_string(token.text))
        except ValueError:
            self.fail(f"expected a {kind}", token)
