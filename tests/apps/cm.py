# SPDX-License-Identifier: BSD-3-Clause
"""What the processes of a device say of their connections, and pairs of programs that connect through librdmacm."""
import contextlib
import json
import os
import signal

import harness

UDP = {"UROCE_RING": "off"}
GOES_ON_S = 60


def devices(side):
    """@return what `uroce status` says of the side's device; nothing if it is not open"""
    said = harness.uroce("status", side.address, "--json", side=side)
    return json.loads(said.stdout)["devices"] if said.returncode == 0 else []


def functions(side):
    """@return the processes of the side's device; none if it is not open"""
    return [function for device in devices(side) for function in device["functions"]]


def kill_daemon(side):
    """Kill the daemon of the side's device. @return whether there was one"""
    for device in devices(side):
        if device["daemon"] and device["daemon"]["pid"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(device["daemon"]["pid"], signal.SIGKILL)
                return True
    return False


def states(side, pid):
    """@return the states of a process's connections"""
    return [entry["state"] for function in functions(side) if function["pid"] == pid
            for entry in function.get("cm", [])]


def received(side, pid):
    """@return how many packets a process's queue pairs have received"""
    return sum(qp["counters"]["rx_packets"] for function in functions(side) if function["pid"] == pid
               for qp in function.get("queue_pairs", []))


def goes_on(side, pid):
    """Whether a process receives packets. It may take long: `uroce status` waits for processes that are stopped."""
    seen = []

    def more():
        seen.append(received(side, pid))
        return any(0 < before < seen[-1] for before in seen)
    if not harness.until(GOES_ON_S, more):
        print(f"packets received: {seen}", flush=True)
        return False
    return True


def ports(side):
    """@return [(port space, port)] on which processes of the device listen"""
    return [tuple(port) for function in functions(side) for port in function["cm_ports"]]


def listens(side):
    return any(entry["state"] == "listen" for function in functions(side) for entry in function.get("cm", []))


def code_of(argv, code, said):
    """@return a client's exit code; but 0 for an rping that has printed all its pings and then exits with 255: rping
    44's event thread may read the channel once more that its main thread has just closed."""
    if argv[0] == "rping" and code == 255 and "-v" in argv and \
            said.count("ping data: ") == int(argv[argv.index("-C") + 1]):
        print("rping's event thread has read a closed channel", flush=True)
        return 0
    return code


def pair(server_argv, client_argv, sides, env=None, seconds=60, ends=True, tcp=None):
    """A server, and a client once the server listens.
    @param ends whether the server ends when its client has; otherwise it is ended
    @param tcp a TCP port on which the server listens at last; None: it listens in the device's port space
    @return (ok, reason, server output, client output)"""
    server = harness.Process(server_argv, sides[0], env)
    if not (server.wait_listen(tcp, 20) if tcp else harness.until(20, lambda: listens(sides[0]))):
        return False, f"the server does not listen (exit code {server.wait(0.1)})", server.output(), ""
    client = harness.Process(client_argv, sides[1], env)
    codes = [code_of(client_argv, client.wait(seconds), client.output())]
    if ends:
        codes.append(server.wait(10))
    else:
        server.kill()
    return not any(code != 0 for code in codes), f"exit codes {codes}", server.output(), client.output()
