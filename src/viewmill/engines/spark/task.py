"""What runs in a bucket: one block of one batch.

    what arrived  ->  the state, one block on  ->  messages to buckets and to the driver
                  ->  the log

The log is written meanwhile. A task ends with both or not at all: when it has ended, the state after this block can be
made again anywhere, and before that the one after the block before can. An error that is the
fault of a row does not fail the task, which Spark would only run again: it is a message to the driver, which then
refuses the batch. What buckets hold of it by then is never committed, and undone when they are next used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import assert_never

import pyarrow as pa

from viewmill.distribute.nodes import Anywhere, Buckets, Driver, Everywhere, Here
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.anchor import BucketFunction
from viewmill.engines.spark.changed import change_messages
from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.message import MESSAGES, Format, letters, route
from viewmill.engines.spark.outgoing import Outgoing
from viewmill.engines.spark.refusals import REFUSAL, doubts, doubts_as_messages, refused_as_message
from viewmill.engines.spark.saving import save
from viewmill.engines.spark.states import before_step, remove_others
from viewmill.engines.spark.step import Taken, take
from viewmill.engines.spark.work import Work, from_log, to_log
from viewmill.errors import ViewmillError
from viewmill.numbers import as_column, numbers

REPORT = -2
"""The target of messages about what was done."""


@dataclass(frozen=True, slots=True)
class Report:
    """Of one bucket and one block: bytes written to the log, and of a snapshot if there is one."""

    bucket: int
    number: int
    logged: int
    saved: int = 0


def bucket_task(work: Work) -> BucketFunction:
    def run(bucket: int, table: pa.Table) -> pa.Table:
        try:
            return _run(work, bucket, table)
        except _InStep as refused:
            step = work.point.deployed().steps(work.entry.relations)[work.number - 1]
            return refused_as_message(refused.error, bucket, work.point.buckets, by_state=not step.tables)
        except ViewmillError as error:  # of a file, say
            return refused_as_message(error, bucket, work.point.buckets)

    return run


class _InStep(Exception):
    """Raised by what a step does with the rows and the state it has found."""

    def __init__(self, error: ViewmillError) -> None:
        self.error = error


def _run(work: Work, bucket: int, table: pa.Table) -> pa.Table:
    point, entry, number = work.point, work.entry, work.number
    deployed = point.deployed()
    passed_on = MESSAGES.empty_table()
    table = table.select(MESSAGES.names).cast(MESSAGES)
    if number > 1:
        passed_on, table = (table.filter(keep) for keep in _driver_or_here(table))
        if REFUSAL in passed_on.column("target").to_pylist():
            return passed_on  # this bucket has refused the batch, and is not where the step starts from
    rows, write_log = _arrived(work, bucket, table)
    wanted = work.wanted_in(bucket)
    wanted = replace(wanted, doubted=wanted.doubted | doubts(passed_on))

    def step(kept: Kept) -> tuple[Taken, int]:
        saved = save(kept, point, bucket, entry.version - 1) if bucket in work.saves_before else 0
        try:
            taken = take(kept, deployed, entry, number, rows, wanted)
        except ViewmillError as error:
            raise _InStep(error) from error
        if bucket in work.saves_after:
            saved += save(kept, point, bucket, entry.version)
            remove_others(point)
        return taken, saved

    with ThreadPoolExecutor(1) as beside:
        logged = beside.submit(write_log)
        taken, saved = before_step(work, bucket, step)
        sent = [
            passed_on,
            mail(deployed.format, taken.sent, bucket, point.buckets),
            change_messages(taken.changes, bucket, point.buckets),
            doubts_as_messages(taken.doubted, bucket, point.buckets),
        ]
        report = Report(bucket, number, logged.result(), saved)
    return pa.concat_tables([*sent, _note(work, bucket, REPORT, json.dumps(asdict(report)).encode())])


def _arrived(work: Work, bucket: int, table: pa.Table) -> tuple[pa.Table | None, Callable[[], int]]:
    """What the step takes, and what writes that to the log and tells its bytes. Of a part, it is there already."""
    files, log = work.point.files, work.entry.log(work.number, bucket)
    if work.entry.has_log(work.number, bucket):
        data = files.read(log)
        return from_log(data), lambda: len(data)
    if not table.num_rows:
        return None, lambda: 0

    def write() -> int:
        data = to_log(table)
        files.write(log, data)
        return len(data)

    return table, write


def _driver_or_here(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    target = numbers(table.column("target"))
    return as_column(target < 0), as_column(target >= 0)


def mail(form: Format, sent: Sequence[Outgoing], bucket: int, buckets: int) -> pa.Table:
    """What a step sends, by where it goes."""
    to_buckets: dict[int, dict[str, pa.RecordBatch]] = {}
    to_driver: dict[str, pa.RecordBatch] = {}
    for out in sent:
        match out.to:
            case Driver():
                to_driver[out.name] = out.rows
            case Buckets(by):
                for target, rows in route(out.rows, by, buckets).items():
                    to_buckets.setdefault(target, {})[out.name] = rows
            case Everywhere():
                for target in range(buckets):
                    to_buckets.setdefault(target, {})[out.name] = out.rows
            case Anywhere() | Here():
                to_buckets.setdefault(bucket, {})[out.name] = out.rows
            case _:
                assert_never(out.to)
    return letters(form, bucket, to_buckets, to_driver, buckets)


def _note(work: Work, bucket: int, target: int, data: bytes) -> pa.Table:
    key = bucket_keys(work.point.buckets)[bucket]
    return pa.Table.from_pylist([{"key": key, "target": target, "origin": bucket, "data": data}], MESSAGES)
