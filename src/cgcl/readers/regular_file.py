"""Files from unknown hands: regular ones only, text only if it is UTF-8, and names by line."""

from __future__ import annotations

import codecs
import contextlib
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import BinaryIO

from cgcl.errors import CGCLError, FeatureError, GraphFormatError, ResourceError
from cgcl.memory import require_readable
from cgcl.wording import counted, shown

# Held while warnings are ignored.
_SILENCE = RLock()

MAX_NAME_LENGTH = 1000
"""How many characters the name of a node may have."""
MAX_LINE_BYTES = 1 << 24
"""How long a line of text may be: far more than names need, and enough for 100,000 numbers."""


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        GraphFormatError: It does not exist, is a folder, pipe or device, or may not be read.
        ResourceError: It does not fit into memory.
    """
    with opened(path) as file:
        require_readable(path.name, path.stat().st_size)
        return file.read()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read.

    Raises:
        GraphFormatError: It does not exist, is a folder, pipe or device, or may not be read.
        ResourceError: What is read of it does not fit into memory.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise GraphFormatError(
                f"{path} is a folder, not a regular file.\nGive the path of a file inside it."
            )
        if not stat.S_ISREG(mode):
            raise GraphFormatError(
                f"{path} is not a regular file but a pipe or a device.\n"
                f"Save the table as a file first."
            )
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise GraphFormatError(
            f"No such file: {path}\nCheck the spelling and the folder you are in."
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphFormatError(
            f"Cannot read {shown(str(path), 200)}: {reason}.\nCheck the path and who may read it."
        ) from error
    except MemoryError as error:
        raise ResourceError(
            f"{path.name} does not fit into memory.\nUse a machine with more memory, or fewer rows."
        ) from error


@contextlib.contextmanager
def told(problem: str, remedy: str) -> Iterator[None]:
    """Turn whatever a damaged file or a foreign object brings about into an error of ours.

    What libraries warn of is not told.

    Args:
        problem: The beginning of the message; the reason follows.
        remedy: What to do about it.

    Raises:
        GraphFormatError: Anything was raised but an error of ours.
        ResourceError: Memory does not suffice.
    """
    try:
        # What is ignored is the whole process's: two threads must not put it back out of turn.
        with _SILENCE, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what we do not use, or refuse
            yield
    except CGCLError:
        raise
    except MemoryError as error:
        raise ResourceError(f"{problem}: it does not fit into memory.") from error
    except Exception as error:  # damaged bytes reach Arrow, zipfile, numpy, ... in many ways
        reason = shown(str(error) or type(error).__name__, 120)
        raise GraphFormatError(f"{problem}: {reason}\n{remedy}") from error


def read_text(path: Path) -> bytes:
    """Return the content of a regular file that is UTF-8 text, without a byte order mark.

    Raises:
        GraphFormatError: It is no regular file, is an archive, UTF-16 or not UTF-8, or has a NUL
            byte.
        ResourceError: It does not fit into memory.
    """
    return checked_text(path.name, read_bytes(path))


def checked_text(file: str, content: bytes, before: int = 0) -> bytes:
    """Return the content of a text file, or some lines of it, without a byte order mark.

    Args:
        file: What messages call it.
        content: The bytes.
        before: How many lines of the file come before them.

    Raises:
        GraphFormatError: They are an archive, UTF-16 or not UTF-8, or there is a NUL byte.
    """
    if not before and content.startswith(b"PK\x03\x04"):
        raise GraphFormatError(
            f"{file} is an Excel file or another ZIP archive, whatever its name says.\n"
            f"Open it in a spreadsheet and save it as CSV."
        )
    if not before and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise GraphFormatError(
            f"{file} is encoded as UTF-16, expected UTF-8.\n"
            f"Save it again as CSV with UTF-8 encoding."
        )
    zero = content.find(b"\0")
    if zero >= 0:
        line = before + line_at(content, zero)
        raise GraphFormatError(
            f"{file}, line {line}: a NUL byte, which no text table contains.\n"
            f"Save the table again as CSV with UTF-8 encoding."
        )
    _check_lines(file, content, before)
    decoder = codecs.getincrementaldecoder("utf-8")()
    step = 1 << 22
    for start in range(0, 0 if content.isascii() else len(content), step):
        held = len(decoder.getstate()[0])  # bytes of a character that the last step cut
        try:
            decoder.decode(content[start : start + step], final=start + step >= len(content))
        except UnicodeDecodeError as error:
            position = start - held + error.start
            line = before + line_at(content, position)
            raise GraphFormatError(
                f"{file}, line {line}: byte 0x{content[position]:02x} is not UTF-8.\n"
                f"Save the file with UTF-8 encoding, or convert it: "
                f"iconv -f LATIN1 -t UTF-8 {file}"
            ) from error
    return content if before else content.removeprefix(codecs.BOM_UTF8)


def _check_lines(file: str, content: bytes, before: int) -> None:
    """Refuse a line that no reader takes, before one tries."""
    start = 0
    while len(content) - start > MAX_LINE_BYTES:
        ends = (content.rfind(mark, start, start + MAX_LINE_BYTES) for mark in (b"\n", b"\r"))
        last = max(ends)
        if last < 0:
            line = before + line_at(content, start)
            raise GraphFormatError(
                f"{file}, line {line}: more than {MAX_LINE_BYTES:,} bytes.\n"
                f"Look for a missing line break."
            )
        start = last + 1


def line_at(content: bytes, position: int) -> int:
    """Return the number of the line, from 1, that holds the byte at `position`."""
    breaks = content.count(b"\n", 0, position) + content.count(b"\r", 0, position)
    return breaks - content.count(b"\r\n", 0, position) + 1


def read_names(path: Path, *, skip_empty: bool = True) -> list[str]:
    """Return the names in a text file, one a line, in their order.

    A name is the whole line as it is written: blanks, commas and quotes belong to it.

    Raises:
        GraphFormatError: It is not a text file, holds no name, one that is too long, or an empty
            line that is not to be skipped.
    """
    # Not splitlines, which also breaks lines at characters that a name may hold.
    lines = re.split(r"\r\n|\r|\n", read_text(path).decode())
    if not lines[-1]:  # behind the last line break
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_NAME_LENGTH or not (line or skip_empty):
            what = f"a name of {len(line):,} characters, '{shown(line, 40)}'"
            raise GraphFormatError(
                f"{path.name}, line {number:,}: {what if line else 'an empty line'}.\n"
                f"Write one name a line, of up to {MAX_NAME_LENGTH:,} characters."
            )
    names = [line for line in lines if line]
    if not names:
        raise GraphFormatError(f"{path.name} is empty.\nExpected the name of a node on each line.")
    return names


def names_of_rows(source: Path | Sequence[str] | None, rows: int, place: str) -> list[str]:
    """Return the node of each row of a matrix.

    Args:
        source: A text file with a name per line, or the names; None for 0, 1, 2, ...
        rows: Number of rows that need one.
        place: What messages call the matrix.

    Raises:
        GraphFormatError: The file is no text, or has an empty or too long line.
        FeatureError: There are more or fewer names than rows, or something is not a name.
    """
    if source is None:
        return [str(row) for row in range(rows)]
    is_file = isinstance(source, Path)
    names = read_names(source, skip_empty=False) if is_file else list(source)
    for row, name in enumerate(names):
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
            raise FeatureError(
                f"Row {row:,} of {place} is called {shown(repr(name))}, expected a text of 1 "
                f"to {MAX_NAME_LENGTH:,} characters."
            )
    if len(names) != rows:
        raise FeatureError(
            f"{place} has {counted(rows, 'row')}, but "
            f"{source.name if is_file else 'the list of names'} has "
            f"{counted(len(names), 'name')}.\n"
            f"Give one name per row, in the order of the rows."
        )
    return names
