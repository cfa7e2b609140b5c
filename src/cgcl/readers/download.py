"""Fetching a published file: verified connection, verified content, all or nothing."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.graph.wording import shown

__all__ = ["MAX_BYTES", "PARTIAL_SUFFIX", "download"]

MAX_BYTES = 200_000_000
PARTIAL_SUFFIX = ".part"
_CHUNK_BYTES = 1 << 16


def download(
    url: str,
    target: Path,
    *,
    check: Callable[[Path], object],
    timeout_s: float = 30,
    max_bytes: int = MAX_BYTES,
    opener: urllib.request.OpenerDirector | None = None,
) -> None:
    """Fetch `url` to `target`, unless it is there already; either way its content is checked.

    The bytes go to `target` + ".part" and take the name only after `check` accepted them, so a cut
    connection or a wrong file leaves nothing behind.

    Args:
        url: An https address.
        target: The file to make; its folder is made too.
        check: Called with a file; raises GraphFormatError if it is not the published one.
        timeout_s: Longest silence of the server.
        max_bytes: Largest file accepted.
        opener: Another way to open addresses; the default speaks https only, redirects included.

    Raises:
        ResourceError: The network or the disk failed; the message says how to do it by hand.
        GraphFormatError: What is there, or what came, is not the published file.
    """
    if target.exists():
        check(target)
        return
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(opener or _https_only(), url, partial, timeout_s, max_bytes)
        check(partial)
        partial.replace(target)
    except GraphFormatError as error:
        raise _by_hand(url, target, "what came is not the published file") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _by_hand(url, target, _reason(error)) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _https_only() -> urllib.request.OpenerDirector:
    """Return an opener that knows no scheme but https, so no redirect can leave it either."""
    opener = urllib.request.OpenerDirector()
    handlers: tuple[urllib.request.BaseHandler, ...] = (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _fetch(
    opener: urllib.request.OpenerDirector,
    url: str,
    partial: Path,
    timeout_s: float,
    max_bytes: int,
) -> None:
    with opener.open(url, timeout=timeout_s) as response, partial.open("wb") as file:
        promised = response.headers.get("Content-Length")
        received = 0
        while chunk := response.read(_CHUNK_BYTES):
            received += len(chunk)
            if received > max_bytes:
                raise OSError(f"it is larger than {max_bytes / 1e6:,.0f} MB")
            file.write(chunk)
    if promised is not None and received != int(promised):
        raise OSError(f"the connection ended after {received:,} of {int(promised):,} bytes")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        with contextlib.closing(error):
            return f"the server answered {error.code} {shown(str(error.reason))}"
    if isinstance(error, urllib.error.URLError):
        return shown(str(error.reason), 120)
    if isinstance(error, TimeoutError):
        return "the server stopped answering"
    return shown(str(error) or type(error).__name__, 120)


def _by_hand(url: str, target: Path, reason: str) -> ResourceError:
    return ResourceError(
        f"Cannot download {target.name}: {reason}.\n"
        f"Fetch {url}\n"
        f"and save it as {target}, or name a folder that has it: `data_root` or CGCL_DATA."
    )
