import contextlib
import hashlib
import http.server
import socket
import ssl
import threading
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.readers import datasets
from cgcl.readers.datasets import fetch as download
from cgcl.readers.planetoid import check_sha256

BODY = b"published" * 1000
CHECK = partial(check_sha256, sha256=hashlib.sha256(BODY).hexdigest())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/good")
            self.end_headers()
            return
        self.send_response(200)
        if self.path in ("/good", "/half", "/wrong"):
            self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        while self.path in ("/endless", "/drip"):
            self.wfile.write(BODY if self.path == "/endless" else b"p")
        body = {"/half": BODY[:4500], "/cut": BODY[:4500], "/wrong": BODY[::-1]}.get(
            self.path, BODY
        )
        self.wfile.write(body)

    def handle(self):
        with contextlib.suppress(OSError):  # a client hangs up where that is the point
            super().handle()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(context=None):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        if context:
            running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield (
            f"https://localhost:{running.server_port}"
            if context
            else (f"http://127.0.0.1:{running.server_port}")
        )
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)


@pytest.fixture(scope="module")
def server():
    with serving() as address:
        yield address


@pytest.fixture
def fetch(server):
    opener = urllib.request.build_opener()

    def fetch(path, target):
        download(server + path, target, check=CHECK, opener=opener, timeout_s=5)

    return fetch


@pytest.mark.parametrize("path", ["/good", "/redirect"])
def test_a_published_file_arrives(fetch, tmp_path, path):
    target = tmp_path / "PubMed" / "raw" / "file"
    fetch(path, target)
    assert target.read_bytes() == BODY
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/half", "the connection ended after 4,500 of 9,000 bytes"),
        ("/wrong", "what came is not the published file"),
        ("/cut", "what came is not the published file"),  # without a word of how long it is
        ("/endless", "it is larger than 1 MB"),
        ("/missing", "the server answered 404 Not Found"),
    ],
)
def test_a_failed_download_leaves_nothing_and_says_what_to_do(
    server, fetch, tmp_path, path, reason, monkeypatch
):
    monkeypatch.setattr(datasets, "_MAX_BYTES", 1_000_000)
    target = tmp_path / "file"
    with pytest.raises(ResourceError) as caught:
        fetch(path, target)
    assert str(caught.value) == (
        f"Cannot download file: {reason}.\n"
        f"Fetch {server}{path}\n"
        f"and save it as {target}, or name a folder that has it: `data_root` or CGCL_DATA."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_drips_is_left_after_a_while(fetch, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "_PATIENCE", 0.01)
    monkeypatch.setattr(datasets, "_MAX_BYTES", 1e12)
    with pytest.raises(ResourceError, match=r"Cannot download file: only [\d,]+ bytes came in 0 s"):
        fetch("/drip", tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_is_our_error(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        opener = urllib.request.build_opener()
        with pytest.raises(ResourceError, match=r"Cannot download file: .*refused"):
            download(url, tmp_path / "file", check=CHECK, opener=opener, timeout_s=5)
    assert list(tmp_path.iterdir()) == []


def test_an_unencrypted_address_is_refused(server, tmp_path):
    with pytest.raises(ResourceError, match="unknown url type: http"):
        download(server + "/good", tmp_path / "file", check=CHECK)
    with pytest.raises(ResourceError, match="unknown url type: file"):
        download(f"file://{__file__}", tmp_path / "file", check=CHECK)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def secure_server():
    """An https server with a certificate of its own, signed by nobody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("untrusted.pem"))
    with serving(context) as address:
        yield address


def test_a_certificate_that_nobody_vouches_for_is_refused(secure_server, tmp_path):
    with pytest.raises(ResourceError, match=r"CERTIFICATE_VERIFY_FAILED|certificate"):
        download(secure_server + "/good", tmp_path / "file", check=CHECK)
    assert list(tmp_path.iterdir()) == []


def test_with_a_certificate_that_is_trusted_the_same_file_arrives(secure_server, tmp_path):
    """So it was the certificate, and nothing else, that the test above was about."""
    trusting = ssl.create_default_context(cafile=Path(__file__).with_name("untrusted.pem"))
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusting))
    download(secure_server + "/good", tmp_path / "file", check=CHECK, opener=opener)
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_file_already_there_is_checked_and_never_overwritten(fetch, write):
    target = write("file", BODY)
    fetch("/missing", target)
    target.write_bytes(b"mine")
    with pytest.raises(GraphFormatError, match="file is not the published file"):
        fetch("/good", target)
    assert target.read_bytes() == b"mine"


def test_a_folder_that_cannot_be_made_is_our_error(fetch, tmp_path, write):
    write("raw", "a file where the folder should be")
    with pytest.raises(ResourceError, match="Cannot download file"):
        fetch("/good", tmp_path / "raw" / "file")
