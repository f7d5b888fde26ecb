"""A standalone Spark cluster on the loopback interface: one master, some workers, each process to be killed at will."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from viewmill.engines.spark.java import java_home

HOST = "127.0.0.1"
PATIENCE = 90.0


@dataclass
class Cluster:
    folder: Path
    cores: int
    memory: str
    port: int
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def add_worker(self) -> subprocess.Popen[bytes]:
        number = len(self.workers)
        options = ["--host", HOST, "--webui-port", "0", "--cores", str(self.cores), "--memory", self.memory]
        command = ["org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(self.work(number)), self.url]
        self.scratch(number).mkdir()
        own = {"TMPDIR": str(self.scratch(number)), "SPARK_LOCAL_DIRS": str(self.scratch(number))}
        worker = started(command, self.folder / f"worker-{number}.log", own)
        self.workers.append(worker)
        await_text(self.folder / f"worker-{number}.log", "Successfully registered with master", worker)
        return worker

    def work(self, number: int) -> Path:
        """Where the executors of a worker live: their logs, and the working directories of their Python processes."""
        return self.folder / f"work-{number}"

    def scratch(self, number: int) -> Path:
        """The local disk of a worker. Workers share none, as if they were on different machines."""
        return self.folder / f"scratch-{number}"

    def buckets(self, number: int) -> set[str]:
        """The files of buckets that a worker's executors have made, by name."""
        return {file.name for file in self.scratch(number).glob("viewmill-*/*-*-*") if not file.suffix}

    @property
    def alive(self) -> list[int]:
        """The numbers of workers that run."""
        return [number for number, worker in enumerate(self.workers) if worker.poll() is None]

    def lose_worker(self, number: int) -> None:
        """A machine goes down: the worker and everything that it runs. Its disk is not seen again either."""
        _end(self.workers[number])

    def executors(self, number: int) -> list[int]:
        """The process ids of a worker's executors."""
        return [
            child for child in children(self.workers[number].pid) if "CoarseGrainedExecutorBackend" in command(child)
        ]

    def pythons(self, number: int) -> list[int]:
        """The Python processes under a worker's executors: Spark's daemon, and those that it has forked for tasks."""
        return [child for child in children(self.workers[number].pid) if "spark.daemon " in command(child)]

    def stop(self) -> None:
        for process in [*self.workers, self.master]:
            _end(process)


@contextmanager
def cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    options = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
    master = started(["org.apache.spark.deploy.master.Master", *options], folder / "master.log")
    running = Cluster(folder, cores, memory, port, master)
    try:
        await_text(folder / "master.log", "I have been elected leader", master)
        for _ in range(workers):
            running.add_worker()
        yield running
    finally:
        running.stop()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return  # its id may be another process's by now
    for pid in [*children(process.pid), process.pid]:
        kill(pid)
    process.wait()


def started(arguments: list[str], log: Path, own: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A Java process of Spark's. `spark-class` becomes it, so that its process id is that of the Java.

    `own` is what it finds in its environment, and what it starts finds there too.
    """
    home = java_home()
    environment = {
        **os.environ,
        **({"JAVA_HOME": str(home)} if home else {}),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        # What workers of workers import: this checkout.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        **(own or {}),
    }
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as out:
        return subprocess.Popen([str(script), *arguments], stdout=out, stderr=out, env=environment)


def await_text(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if re.search(text, log.read_text(errors="replace")):
            return
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.1)
    raise TimeoutError(f"{log.name} does not say {text!r}:\n{log.read_text(errors='replace')}")


def children(pid: int) -> list[int]:
    """All processes below one, the nearest first."""
    below: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = [int(word) for word in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        below += found
        for child in found:
            below += children(child)
    return below


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port
