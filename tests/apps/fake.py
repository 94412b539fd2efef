# SPDX-License-Identifier: BSD-3-Clause
"""Takes the names of daemons and functions, and answers tools as one of another release would, or with nonsense."""
import contextlib
import itertools
import json
import multiprocessing
import socket
import struct
import threading
import time

HEADER = struct.Struct("=IHH")
REFUSED, TOOL, TEXT, END, PACKET = 3, 9, 10, 11, 48  # as in pmd/proto/proto.h
OTHER_MAGIC = 0x757200ff


def message(magic, kind, data=b""):
    return HEADER.pack(magic, kind, len(data)) + data


def says(magic, text, status=0):
    """@return a function that answers each request with this text."""
    def answer(_):
        yield message(magic, TEXT, text.encode())
        yield message(magic, END, struct.pack("=i", status))
    return answer


def of_another_version(_):
    yield message(OTHER_MAGIC, REFUSED, bytes(324))


def silent(_):
    """Ends the connection without an answer."""
    yield None


def endless(magic, size, seconds):
    def answer(_):
        while True:
            time.sleep(seconds)
            yield message(magic, TEXT, b" " * size)
    return answer


def captured(magic, device, packets, last, lost=()):
    """@return a function that, while it is captured, sends packets and then `last`.
    @param lost: for each packet, how many were lost before it
    """
    def answer(request):
        if request.startswith(b"status"):
            status = {"device": "fake", "command": "fake", "mtu": 1024, "link": "up", "faults": 0, "qps": 0,
                      "gids": [{"address": device}]}
            yield from says(magic, json.dumps(status))(request)
        elif request.startswith(b"capture dir"):
            for data, before in itertools.zip_longest(packets, lost, fillvalue=0):
                header = struct.pack("=QQIHBB", time.time_ns(), before, len(data), 0, 1, 0)
                yield message(magic, PACKET, header + data)
            yield last
    return answer


def serve(visitor, answer):
    with visitor, contextlib.suppress(OSError):  # it may have gone already
        while True:
            request = visitor.recv(1 << 16)
            if not request:
                return
            for data in answer(request[HEADER.size:]):
                if data is None:
                    return
                visitor.send(data)


@contextlib.contextmanager
def listening(answer, *names):
    """Listen under the names, and answer requests. @param answer: yields messages; None ends the connection"""
    listeners, threads = [], []

    def accept(listener):
        while True:
            try:
                visitor, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(visitor, answer), daemon=True).start()
    for name in names:
        listeners.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listeners[-1].bind(f"\0uroce/{name}")
        listeners[-1].listen()
        threads.append(threading.Thread(target=accept, args=(listeners[-1],), daemon=True))
        threads[-1].start()
    try:
        yield
    finally:
        for listener, thread in itertools.zip_longest(listeners, threads):
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            listener.close()


@contextlib.contextmanager
def processes(answer, *names):
    """The same with a process for each name, as daemons are; which one has is known by then."""
    context = multiprocessing.get_context("fork")

    def run(name, ready):
        with listening(answer, name):
            ready.set()
            time.sleep(600)
    started = []
    try:
        for name in names:
            ready = context.Event()
            started.append(context.Process(target=run, args=(name, ready), daemon=True))
            started[-1].start()
            if not ready.wait(20):
                raise RuntimeError(f"nobody listens as {name}")
        yield
    finally:
        for process in started:
            process.kill()
            process.join()
