"""Files from unknown hands: regular ones only, and text only if it is UTF-8."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.graph.wording import shown

__all__ = ["check_text", "read_bytes"]


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        GraphFormatError: It does not exist, is a folder, pipe or device, or may not be read.
        ResourceError: It does not fit into memory.
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
        return path.read_bytes()
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


def check_text(file: str, content: bytes) -> None:
    """Refuse content that is no UTF-8 text.

    Args:
        file: The file's name, for the message.
        content: All of it.

    Raises:
        GraphFormatError: It is an archive, UTF-16, has a NUL byte, or is not UTF-8.
    """
    if content.startswith(b"PK\x03\x04"):
        raise GraphFormatError(
            f"{file} is an Excel file or another ZIP archive, whatever its name says.\n"
            f"Open it in a spreadsheet and save it as CSV."
        )
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise GraphFormatError(
            f"{file} is encoded as UTF-16, expected UTF-8.\n"
            f"Save it again as CSV with UTF-8 encoding."
        )
    zero = content.find(b"\0")
    if zero >= 0:
        raise GraphFormatError(
            f"{file}, line {_line_at(content, zero)}: a NUL byte, which no text table contains.\n"
            f"Save the table again as CSV with UTF-8 encoding."
        )
    if content.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    step = 1 << 22
    for start in range(0, len(content), step):
        held = len(decoder.getstate()[0])  # bytes of a character that the last step cut
        try:
            decoder.decode(content[start : start + step], final=start + step >= len(content))
        except UnicodeDecodeError as error:
            position = start - held + error.start
            raise GraphFormatError(
                f"{file}, line {_line_at(content, position)}: byte 0x{content[position]:02x} is "
                f"not UTF-8.\nSave the file with UTF-8 encoding, or convert it: "
                f"iconv -f LATIN1 -t UTF-8 {file}"
            ) from error


def _line_at(content: bytes, position: int) -> int:
    """Return the number of the line, from 1, that holds the byte at `position`."""
    breaks = content.count(b"\n", 0, position) + content.count(b"\r", 0, position)
    return breaks - content.count(b"\r\n", 0, position) + 1
