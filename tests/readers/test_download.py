import contextlib
import hashlib
import http.server
import socket
import ssl
import struct
import threading
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.readers import DATASETS, datasets, load_dataset
from cgcl.readers.datasets import fetch as download
from cgcl.readers.planetoid import check_sha256

BODY = b"published" * 1000
CHECK = partial(check_sha256, sha256=hashlib.sha256(BODY).hexdigest())


REDIRECTS = {
    "/redirect": "/good",
    "/round": "/round",
    "/on": "/round",
    "/unencrypted": "http://127.0.0.1:1/file",
    "/local": "file:///etc/hostname",
    "/nowhere": None,
}
CHUNKED = {"Transfer-Encoding": "chunked"}
PAGE = b"<html>Please log in</html>"
ANSWERS = {
    "/good": ({"Content-Length": "9000"}, BODY),
    "/half": ({"Content-Length": "9000"}, BODY[:4500]),
    "/short": ({"Content-Length": "4500"}, BODY),
    "/odd": ({"Content-Length": "many"}, BODY),
    "/negative": ({"Content-Length": "-1"}, BODY),
    "/wrong": ({"Content-Length": "9000"}, BODY[::-1]),
    "/page": ({"Content-Length": str(len(PAGE)), "Content-Type": "text/html"}, PAGE),
    "/cut": ({}, BODY[:4500]),
    "/chunks": (CHUNKED, b"1194\r\n" + BODY[:4500] + b"\r\n1194\r\n" + BODY[:100]),
    "/no-chunks": (CHUNKED, b"many\r\n" + BODY),
    "/reset": ({"Content-Length": "9000"}, BODY[:4500]),
}
"""What a path answers: headers and a body; a reset follows on the last one."""


OVER = threading.Event()
"""Ends what else would never end."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.close_connection = True
        if self.path in ("/missing", "/unavailable"):
            self.send_error(404 if self.path == "/missing" else 503)
        elif self.path == "/nonsense":
            self.wfile.write(b"nonsense\r\n\r\n")
        elif self.path == "/before-headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not OVER.wait(0.001):
                self.wfile.write(b"p")
        elif self.path == "/silent":
            self.rfile.read()
        elif self.path in REDIRECTS:
            self.send_response(302)
            if REDIRECTS[self.path]:
                self.send_header("Location", REDIRECTS[self.path])
            self.end_headers()
        else:
            self.answer()

    def answer(self):
        self.send_response(200)
        headers, body = ANSWERS.get(self.path, ({}, BODY))
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        while self.path in ("/endless", "/drip"):
            self.wfile.write(BODY if self.path == "/endless" else b"p")
        self.wfile.write(body)
        if self.path == "/reset":
            # Closing without waiting for what was sent is a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

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


@pytest.mark.parametrize("path", ["/good", "/redirect", "/odd", "/negative"])
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
        ("/short", "what came is not the published file"),
        ("/page", "what came is not the published file"),
        ("/chunks", "what the server answered broke off or makes no sense"),
        ("/no-chunks", "what the server answered broke off or makes no sense"),
        ("/nonsense", "what the server answered broke off or makes no sense"),
        ("/reset", "Connection reset by peer"),
        ("/endless", "it is larger than 1 MB"),
        ("/missing", "the server answered 404 Not Found"),
        ("/unavailable", "the server answered 503 Service Unavailable"),
        ("/round", "the server answered 302 and sends to nowhere that is followed"),
        ("/on", "the server answered 302 and sends to nowhere that is followed"),
        ("/local", "the server answered 302 and sends to nowhere that is followed"),
        ("/nowhere", "the server answered 302 and sends to nowhere that is followed"),
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
    fetch("/good", target)  # nothing of the failure is in the way
    assert target.read_bytes() == BODY
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("path", ["/drip", "/before-headers"])
def test_a_server_that_drips_is_left_after_a_while(fetch, tmp_path, monkeypatch, path):
    OVER.clear()
    monkeypatch.setattr(datasets, "_PATIENCE", 0.01)
    monkeypatch.setattr(datasets, "_MAX_BYTES", 1e12)
    with pytest.raises(ResourceError, match=r"Cannot download file: only [\d,]+ bytes came in 0 s"):
        fetch(path, tmp_path / "file")
    OVER.set()
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_falls_silent_is_left_after_a_while(server, tmp_path):
    opener = urllib.request.build_opener()
    with pytest.raises(ResourceError, match="Cannot download file: the server stopped answering"):
        download(server + "/silent", tmp_path / "file", check=CHECK, opener=opener, timeout_s=0.01)
    assert list(tmp_path.iterdir()) == []


def test_files_that_came_before_one_fails_stay_and_are_not_fetched_again(
    server, tmp_path, monkeypatch
):
    asked = []

    def fetched(url, target, *, check):
        asked.append(target.name)
        path = "/reset" if len(asked) == 2 else "/good"
        opener = urllib.request.build_opener()
        download(server + path, target, check=CHECK, opener=opener, timeout_s=5)

    monkeypatch.setattr(datasets, "fetch", fetched)
    first, second, *others = DATASETS["citeseer"].files
    with pytest.raises(ResourceError, match="Also missing, same address, same folder: "):
        load_dataset("citeseer", tmp_path)
    assert [path.name for path in tmp_path.rglob("*.*")] == [first]
    with pytest.raises(GraphFormatError, match="is not the published file"):
        load_dataset("citeseer", tmp_path)
    assert asked == [first, second, second, *others]


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


def test_a_redirect_is_followed_to_encrypted_addresses_only(secure_server, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(Path(__file__).with_name("untrusted.pem")))
    download(secure_server + "/redirect", tmp_path / "file", check=CHECK)
    assert (tmp_path / "file").read_bytes() == BODY
    with pytest.raises(ResourceError, match="unknown url type: http"):
        download(secure_server + "/unencrypted", tmp_path / "other", check=CHECK)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


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
