# SPDX-License-Identifier: BSD-3-Clause
"""uroce stat --listen: an HTTP endpoint from which Prometheus, and others that know its formats, read counters.

One process serves several at a time. Bounded are the connections, the time that each of them may take, and the work:
who asks while others are being answered gets their answer if it was begun after the question."""
import argparse
import http.server
import ipaddress
import re
import signal
import socket
import sys
import threading
import time

from .metrics import Collector
from .proto import UroceError

ADDRESS, PORT = "127.0.0.1", 9791
PLACE = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<v4>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SERVED = 16  # connections; further ones are told to come again
CONNECTIONS = 64  # with those; others are closed
LIFE_SECONDS = 15.0  # of a connection
END_SECONDS = 2.0  # for answers that have begun when the endpoint is told to end


def place(text):
    """@return (address, port) of ADDR, ADDR:PORT, [IPV6]:PORT or :PORT."""
    match = PLACE.fullmatch(f"[{text}]" if text.count(":") > 1 and "[" not in text else text)
    try:
        address = str(ipaddress.ip_address(match["v6"] or match["v4"].replace("localhost", ADDRESS) or ADDRESS))
        port = int(match["port"] or PORT)
    except (TypeError, ValueError):
        port = 1 << 16
    if port >= 1 << 16:
        raise argparse.ArgumentTypeError(f"'{text}' is not an address of this host with a port; write {ADDRESS}:{PORT} "
                                         f"or [::1]:{PORT}")
    return address, port


def quality(accept, kind, version):
    """@return how much a client with this Accept wants a type: 0 to 1."""
    best = 0.0
    for entry in accept.lower().split(","):
        name, *parameters = (word.strip() for word in entry.split(";"))
        values = dict(word.split("=", 1) for word in parameters if "=" in word)
        if name == kind and values.get("version", version) == version:
            try:
                best = max(best, float(values.get("q", 1)))
            except ValueError:
                pass
    return best


def wants_openmetrics(accept):
    return quality(accept, "application/openmetrics-text", "1.0.0") > quality(accept, "text/plain", "0.0.4")


class Handler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "uroce", ""
    default_request_version = "HTTP/1.0"  # of requests that cannot be understood: they get a status, too
    error_message_format, error_content_type = "%(message)s.\n", "text/plain; charset=utf-8"
    timeout = LIFE_SECONDS / 3  # seconds between two bytes

    def do_GET(self):
        path = self.path.split("?")[0]
        if self.server.is_busy(self.connection):
            self.refuse(503, "Too many connections at a time.", ("Retry-After", "1"))
        elif path != "/metrics":
            self.refuse(404, "The metrics are at /metrics.")
        else:
            try:
                families = self.server.families()
            except UroceError as error:
                self.refuse(500, f"{error}.")
                return
            openmetrics = wants_openmetrics(self.headers.get("Accept", ""))
            self.answer(200, OPENMETRICS if openmetrics else TEXT, families.text(openmetrics))

    do_HEAD = do_GET

    def do_POST(self):
        self.refuse(405, "Metrics can only be read.", ("Allow", "GET, HEAD"))

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = do_POST

    def refuse(self, code, sentence, *headers):
        self.answer(code, "text/plain; charset=utf-8", sentence + "\n", *headers)

    def answer(self, code, kind, text, *headers):
        data = text.encode()
        self.send_response(code)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, where, collector):
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        super().__init__(where, Handler)
        self.collector, self.collecting, self.begun, self.found = collector, threading.Lock(), 0.0, None
        self.changing, self.open = threading.Lock(), {}  # {connection: (when it was accepted, whether it is too much)}

    def server_bind(self):
        """Not the class's own, which asks the name service for this host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def families(self):
        """@return counters that were read after this call began"""
        now = time.monotonic()
        with self.collecting:
            if self.begun < now:
                begun = time.monotonic()
                self.found, self.begun = self.collector.collect(), begun
            return self.found

    def process_request(self, request, client_address):
        with self.changing:
            many = len(self.open)
            if many < CONNECTIONS:
                self.open[request] = (time.monotonic(), many >= SERVED)
        if many < CONNECTIONS:
            super().process_request(request, client_address)
        else:
            super().shutdown_request(request)

    def shutdown_request(self, request):
        with self.changing:
            self.open.pop(request, None)
        super().shutdown_request(request)

    def is_busy(self, request):
        with self.changing:
            return self.open.get(request, (0, False))[1]

    def service_actions(self):
        """Called twice a second: who has been connected for too long has to go."""
        with self.changing:
            for request, (since, _) in self.open.items():
                if time.monotonic() - since > LIFE_SECONDS:
                    try:
                        request.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass  # it has gone by itself

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # those are the other side's
            print(f"uroce: an answer failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def drain(self):
        """Let answers that have begun come to their end, for a limited time."""
        end = time.monotonic() + END_SECONDS
        while self.open and time.monotonic() < end:
            time.sleep(0.01)


class Stop(BaseException):
    """A signal has come."""


def stop(*_):
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    raise Stop


def serve(args):
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    collector = Collector(args.device)
    collector.look_first()
    host, port = args.listen
    try:
        server = Server((host, port), collector)
    except OSError as error:
        raise UroceError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    with server:
        shown = f"[{host}]" if ":" in host else host
        try:
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, stop)
            print(f"uroce: metrics are at http://{shown}:{server.server_port}/metrics until Ctrl-C", file=sys.stderr,
                  flush=True)
            server.serve_forever()
        except Stop:
            server.socket.close()
            server.drain()
