"""A tiny set of ratings with its own pinned hashes, and a home on this machine to download it from."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import io
import threading
import zipfile
from types import SimpleNamespace

import pytest

from fullspan.datasets import movielens

U_DATA = b"7\t30\t5\t881250949\n2\t10\t3\t891717742\n7\t20\t4\t878887116\n9\t30\t1\t880606923\n2\t30\t4\t886397596\n"
INTER = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + U_DATA
CSV = b"userId,movieId,rating,timestamp\r\n1,1,4.0,964982703\r\n1,3,0.5,964981247\r\n2,3,5.0,964982224\r\n"


def zipped(**members):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return held.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


ARCHIVE = zipped(**{"ml-100k/README": b"terms", "ml-100k/u.data": U_DATA})
CSV_ARCHIVE = zipped(**{"ml-latest-small/ratings.csv": CSV})


class Home(http.server.BaseHTTPRequestHandler):
    """Serves what `answers` holds: path to (content, bytes really sent)."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path not in self.server.answers:
            self.send_error(404)
            return
        content, sent = self.server.answers[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:sent])

    def log_message(self, *_):
        pass


@pytest.fixture
def home():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Home)
    server.answers, server.asked = {"/ml-100k.zip": (ARCHIVE, None)}, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Empty places, and the tiny sets in the registry; the home answers nothing."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("FULLSPAN_CACHE", str(cache))
    monkeypatch.delenv("FULLSPAN_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    _register(monkeypatch, "100k", U_DATA, ARCHIVE, "http://127.0.0.1:9/ml-100k.zip", package="fullspan-absent")
    _register(monkeypatch, "latest-small", CSV, CSV_ARCHIVE, "http://127.0.0.1:9/ml-latest-small.zip")
    return SimpleNamespace(cache=cache, data=tmp_path / "data", register=_register)


@pytest.fixture
def online(places, home, monkeypatch):
    """The same, and the home has the archive."""
    url = f"http://127.0.0.1:{home.server_port}/ml-100k.zip"
    _register(monkeypatch, "100k", U_DATA, ARCHIVE, url, package="fullspan-absent")
    return places


def _register(monkeypatch, name, content, archive, url, package=None):
    chosen = movielens.SETS[name]
    file = dataclasses.replace(chosen.file, sha256=sha256(content), archive_url=url, archive_sha256=sha256(archive))
    if package is not None:
        file = dataclasses.replace(file, wheel=dataclasses.replace(file.wheel, package=package))
    monkeypatch.setitem(movielens.SETS, name, dataclasses.replace(chosen, file=file))
