"""Which function a node of the syntax tree calls.

sqlglot gives every function it knows a class of its own, the same for all dialects, and calls the rest `Anonymous`.
"""

from __future__ import annotations

from sqlglot import exp

# class -> our name for the function, and where its arguments are
_BY_CLASS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("instr", ("this", "substr", "position", "occurrence")),
    exp.Reverse: ("reverse", ("this",)),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StartsWith: ("startswith", ("this", "expression")),
    exp.EndsWith: ("endswith", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.Initcap: ("initcap", ("this",)),
    exp.Ascii: ("ascii", ("this",)),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.Concat: ("concat", ("expressions",)),
    exp.ConcatWs: ("concat_ws", ("expressions",)),
    exp.DPipe: ("concat", ("this", "expression")),
    exp.Abs: ("abs", ("this",)),
    exp.Ceil: ("ceil", ("this", "decimals")),
    exp.Floor: ("floor", ("this", "decimals")),
    exp.Round: ("round", ("this", "decimals")),
    exp.Sign: ("sign", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Pow: ("power", ("this", "expression")),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.Year: ("year", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfYear: ("dayofyear", ("this",)),
    exp.WeekOfYear: ("weekofyear", ("this",)),
    exp.Week: ("weekofyear", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.AddMonths: ("add_months", ("this", "expression")),
    exp.LastDay: ("last_day", ("this",)),
    exp.MonthsBetween: ("months_between", ("this", "expression")),
    exp.UnixDate: ("unix_date", ("this",)),
}

# Spark's other names for the same functions, and those that sqlglot leaves anonymous.
_BY_NAME = {
    "bround": "bround",
    "pmod": "pmod",
    "weekday": "weekday",
    "isnull": "isnull",
    "isnotnull": "isnotnull",
    "btrim": "trim",
    "ltrim": "ltrim",
    "rtrim": "rtrim",
    "left": "left",
    "right": "right",
    "log10": "log10",
    "log2": "log2",
    "ascii": "ascii",
    "translate": "translate",
    "split_part": "split_part",
    "unix_date": "unix_date",
    "endswith": "endswith",
    "startswith": "startswith",
    "contains": "contains",
    "initcap": "initcap",
    "instr": "instr",
    "months_between": "months_between",
    "add_months": "add_months",
    "last_day": "last_day",
    "sign": "sign",
    "repeat": "repeat",
    "reverse": "reverse",
}

NAMED = frozenset(_BY_NAME)

EXTRACT_FIELDS = {
    **dict.fromkeys(("year", "years", "y", "yr"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "months", "mon"), "month"),
    **dict.fromkeys(("week", "weeks", "w"), "weekofyear"),
    **dict.fromkeys(("day", "days", "d"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("doy", "dayofyear"), "dayofyear"),
    **dict.fromkeys(("hour", "hours", "h"), "hour"),
    **dict.fromkeys(("minute", "minutes", "min"), "minute"),
}

NON_DETERMINISTIC: tuple[type[exp.Expr], ...] = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
)
NON_DETERMINISTIC_NAMES = frozenset(
    ("now", "localtimestamp", "monotonically_increasing_id", "input_file_name", "shuffle", "spark_partition_id")
)


def function_of(node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """The name and arguments of a plain function call; None if it is none that we have."""
    if isinstance(node, exp.Anonymous):
        name = _BY_NAME.get(str(node.this).lower())
        return (name, list(node.expressions)) if name else None
    known = _BY_CLASS.get(type(node))
    if known is None:
        return None
    name, places = known
    args: list[exp.Expr] = []
    for place in places:
        part = node.args.get(place)
        args.extend(part if isinstance(part, list) else [part] if isinstance(part, exp.Expr) else [])
    return name, args


def said_name(node: exp.Expr) -> str:
    """The function's name for messages."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key
