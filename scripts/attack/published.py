"""A server of our own that publishes a small graph as a data set, for downloads to be disturbed."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
import time
import urllib.request
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

PR_SET_PDEATHSIG = 1
NODES, FEATURES = 40, 300


class Published(SimpleHTTPRequestHandler):
    """Sends a file in pieces, so that there is a time between them."""

    def copyfile(self, source: Any, outputfile: Any) -> None:  # noqa: ANN401  as it is inherited
        """Send a file."""
        while piece := source.read(1 << 14):
            outputfile.write(piece)
            time.sleep(0.005)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401
        """Say nothing."""


class Quiet(ThreadingHTTPServer):
    """Whose clients are killed, which is the point."""

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Say nothing."""


def end_with_parent() -> None:
    """Let this process end when its parent does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def serve(server: HTTPServer) -> None:
    """Answer until the parent ends."""
    end_with_parent()
    server.serve_forever()


def publish(folder: Path) -> None:
    """Let this process and its children fetch a small graph as the data set photo from here."""
    from cgcl.readers import datasets
    from cgcl.readers.npz import arrays_sha256

    ones = np.ones(NODES * FEATURES)
    arrays = {
        "adj_data": ones[:NODES],
        "adj_indices": np.roll(np.arange(NODES), 1),
        "adj_indptr": np.arange(NODES + 1),
        "adj_shape": np.array([NODES, NODES]),
        "attr_data": ones,
        "attr_indices": np.tile(np.arange(FEATURES), NODES),
        "attr_indptr": np.arange(0, len(ones) + 1, FEATURES),
        "attr_shape": np.array([NODES, FEATURES]),
    }
    row = datasets.DATASETS["photo"]
    (file,) = row.files
    np.savez(folder / file, **arrays)
    server = Quiet(("127.0.0.1", 0), partial(Published, directory=str(folder)))
    multiprocessing.get_context("fork").Process(target=serve, args=(server,), daemon=True).start()
    vars(datasets)["_AMAZON_URL"] = f"http://127.0.0.1:{server.server_port}/"
    without_proxies = urllib.request.ProxyHandler({})
    datasets._https_only = partial(urllib.request.build_opener, without_proxies)
    datasets.DATASETS["photo"] = replace(
        row,
        num_nodes=NODES,
        num_edges=NODES,
        num_features=FEATURES,
        num_nonzeros=len(ones),
        files={file: arrays_sha256(arrays)},
    )
