"""The commands, and what becomes of errors."""

from __future__ import annotations

import ctypes
import gc
import io
import os
import signal
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from cyclopts import App
from cyclopts.config import Env

from cgcl import __version__
from cgcl.cli.settings import COMMANDS, OPTIONS, settings_file, settings_preset
from cgcl.cli.terminal import forget, say
from cgcl.errors import CGCLError, ConfigError, ResourceError
from cgcl.interrupt import end_on_signals
from cgcl.memory import is_out_of_memory

# Exit codes: 0 done, 1 our own error, 2 wrong usage, 70 a bug, 130 and 143 stopped by a signal.
_ERROR, _USAGE, _BUG = 1, 2, 70
# Looks at a barrier before a thread sleeps, of 300,000 by itself (decision 19).
_SPINS = "1000"
# Names of the C library: how much free memory goes back to the system, which blocks always do.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

app = App(
    name="cgcl",
    version=__version__,
    help="Predict missing links of a graph: cross-view graph consistency learning.",
    help_epilogue=(
        "Every option can also be set in the file cgcl.toml, in a table named after the command, "
        "or in the environment, as CGCL_LR for --lr. Options win over the environment, the "
        "environment wins over the file."
    ),
    config=[Env("CGCL_", command=False), settings_file, settings_preset],
    default_parameter=OPTIONS,
)
for command in COMMANDS:
    app.command(getattr(import_module(f"cgcl.cli.{command}"), command))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    _keep_freed_memory()
    _spin_briefly()
    before = end_on_signals()
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a name shows its code instead.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _require_folder()
        # cyclopts itself reports wrong usage and exits with 2.
        code = app(arguments, result_action="return_value")
        sys.stdout.flush()
    except CGCLError as error:
        say(f"Error: {error}")
        code = _USAGE if isinstance(error, ConfigError) else _ERROR
    except BrokenPipeError:
        # The reader of our output, such as head, has had enough. Nothing is left to say.
        forget(sys.stdout)
        code = 0
    except Exception as error:
        code = _unexpected(error)
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: it would fail once more when Python ends, and spoil the code
        forget(sys.stdout)
    for number, handler in before.items():
        signal.signal(number, handler)
    # Both complain at the end of all that is not cleared away.
    if not {"triton", "duckdb"} & sys.modules.keys():
        gc.freeze()  # to look for garbage once more before the end takes half a second
    sys.exit(code or 0)


def _open_what_is_closed() -> None:
    """Give a place to words for which the caller has none."""
    is_told = sys.stdout is None and sys.stderr is not None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if is_told:
        say("Warning: Standard output is closed: what is printed there is lost.")


def _require_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise ResourceError(
            "The current folder is gone. Change to one that is there, and try again."
        ) from error


def _keep_freed_memory() -> None:
    """Let the C library keep blocks of up to 32 MB that are freed, where it can be told.

    To give them back and to ask for them again in every step costs a tenth of a training on a CPU.
    All threads share one store of them: what training has freed serves the workers that come after.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**25)
        mallopt(_M_TRIM_THRESHOLD, 2**30)
        mallopt(_M_ARENA_MAX, 1)


def _spin_briefly() -> None:
    """Let torch's threads sleep soon where they wait for each other, unless the caller has chosen.

    A thread that spins keeps the very core that the one it waits for may need. GNU's OpenMP looks
    when it is loaded, with torch, which nothing has imported yet.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


def _unexpected(error: Exception) -> int:
    """Reword what memory or disk refuse; keep the traceback of a bug in a file and name that."""
    if is_out_of_memory(error):
        say(
            "Error: There is not enough memory for this.\n"
            "Try a smaller --hidden, fewer features, or a machine with more memory."
        )
        return _ERROR
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        say(
            f"Error: The system refuses to read or to write{where}: {error.strerror or error}.\n"
            f"Nothing is half-written. Look at the disk and the path, and try again."
        )
        return _ERROR
    trace = traceback.format_exc()
    with tempfile.NamedTemporaryFile(
        "w", prefix="cgcl-bug-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"cgcl {__version__}\n{trace}")
    last = trace.strip().splitlines()[-1].replace("`", "'")  # no setting of ours
    say(f"This is a bug in cgcl: {last}\nPlease report it with the file {Path(file.name)}")
    return _BUG
