"""Files and tables that tests of readers share."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest


class Frame:
    """A table of some other package, known only by the Arrow protocol."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def frame() -> type[Frame]:
    return Frame


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file of the test's own folder and return where it is."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
