"""An object store on this machine that speaks S3, for tests of what is kept elsewhere."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow.fs as fs
from moto.server import ThreadedMotoServer

_KEYS = {"access_key": "testing", "secret_key": "testing"}


@contextmanager
def object_store() -> Iterator[Callable[[], str]]:
    """A function that gives a new, empty place each time."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    where = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    system = fs.S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True, **_KEYS)
    numbers = itertools.count()

    def place() -> str:
        bucket = f"bucket-{next(numbers)}"
        system.create_dir(bucket)
        return f"s3://{':'.join(_KEYS.values())}@{bucket}/mill?{where}"

    try:
        yield place
    finally:
        server.stop()
