#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ceph with the messenger async+rdma, Debian's packages unmodified: a monitor and an OSD start, and librados writes an
object and reads it back. Ceph exchanges the addresses of its queue pairs over TCP, or connects through librdmacm
(ms_async_rdma_cm). Through shared memory and by the kernel's UDP."""
import filecmp
import os
import re
import tempfile
import time
import uuid

import cm
import harness

PATIENCE_S = 60
CLUSTER_S = 120  # for all that a cluster does; meson allows 600 for four of them
# Commands do not wait for the monitors' map, which follows the answer to the authentication. If they are sent before it
# has come, they are refused ("wrong fsid", EPERM): they are repeated. An OSD whose command is refused ends with exit
# code 1, at times before it has logged why: it is started again.
TRIES = 20
BYTES = 20000000
CONF = """[global]
fsid = {fsid}
mon_initial_members = a
mon_host = {address}:6789
public_addr = {address}
cluster_addr = {address}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_data_avail_crit = 1
osd_pool_default_size = 1
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 1073741824
osd_data = {folder}/osd
mon_data = {folder}/mon
run_dir = {folder}
admin_socket = {folder}/$name.$pid.asok
log_file = {folder}/$name.log
pid_file = {folder}/$name.pid
ms_type = async+rdma
ms_async_rdma_device_name = uroce0
ms_async_rdma_buffer_size = 16384
ms_async_rdma_receive_buffers = 8192
ms_async_rdma_receive_queue_len = 1024
{more}"""
BY_CM = "ms_async_rdma_cm = true\nms_async_rdma_type = iwarp\n"


class Failure(Exception):
    """A command has failed: what it said."""


class Cluster:
    """A monitor and an OSD that keeps its objects in memory."""

    def __init__(self, folder, side, env, more):
        self.side, self.env, self.folder = side, dict(env, CEPH_CONF=os.path.join(folder, "conf")), folder
        self.fsid = str(uuid.uuid4())
        self.deadline = time.monotonic() + CLUSTER_S
        self.daemons = []
        with open(self.env["CEPH_CONF"], "w") as f:
            f.write(CONF.format(fsid=self.fsid, address=side.address, folder=folder, more=more))
        for name in ("mon", "osd"):
            os.mkdir(os.path.join(folder, name))

    def start(self, *argv):
        self.daemons.append(harness.Process(argv, self.side, self.env))
        return self.daemons[-1]

    def run(self, *argv):
        """Run a command to its end. @return what it said"""
        for _ in range(TRIES):
            process = harness.Process(argv, self.side, self.env)
            code, said = process.wait(self.left()), process.output()
            if code == 0:
                return said
            if "EPERM" not in said:
                break
        raise Failure(f"{' '.join(argv)}: exit code {code}: {said}")

    def left(self):
        """@return for how many seconds to wait at most"""
        return min(PATIENCE_S, self.deadline - time.monotonic())

    def start_monitor(self):
        monmap = os.path.join(self.folder, "monmap")
        self.run("monmaptool", "--create", "--fsid", self.fsid, "--addv", "a", f"[v1:{self.side.address}:6789]", monmap)
        self.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap)
        self.start("ceph-mon", "-i", "a", "-f", "--public-addr", self.side.address)

    def start_osd(self):
        number = str(uuid.uuid4())
        self.run("ceph", "osd", "new", number, "0")
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", number)
        for _ in range(TRIES):
            osd = self.start("ceph-osd", "-i", "0", "-f")
            if harness.until(self.left(), lambda: osd.popen.poll() is not None or self.osds_up() == 1) \
                    and osd.popen.poll() is None:
                return osd
            if osd.popen.poll() != 1:
                break
        raise Failure(f"the OSD does not start (exit code {osd.popen.poll()}): {self.log('osd.0')}")

    def log(self, name):
        """@return the end of what a daemon wrote to its log"""
        path = os.path.join(self.folder, f"{name}.log")
        if not os.path.exists(path):
            return "no log"
        with open(path, errors="replace") as f:
            return "".join(f.readlines()[-30:])

    def osds_up(self):
        said = self.run("ceph", "osd", "stat", "--format", "json")
        found = re.search(r'"num_up_osds":(\d+)', said)  # after warnings
        return int(found.group(1)) if found else 0

    def says(self):
        return "\n".join(daemon.output()[-2000:] for daemon in self.daemons)

    def stop(self):
        for daemon in self.daemons:
            daemon.kill()


def store(tally, how, side, env, more):
    """An object is written and read, and the OSD has queue pairs that receive. With librdmacm, a daemon of Ceph listens
    on a port of the device."""
    with tempfile.TemporaryDirectory() as folder:
        sent, got = os.path.join(folder, "sent"), os.path.join(folder, "got")
        with open(sent, "wb") as f:
            f.write(os.urandom(BYTES))
        cluster = Cluster(folder, side, env, more)
        try:
            cluster.start_monitor()
            osd = cluster.start_osd()
            cluster.run("ceph", "osd", "pool", "create", "pool", "8")
            cluster.run("rados", "-p", "pool", "put", "object", sent)
            cluster.run("rados", "-p", "pool", "get", "object", got)
            tally.result(f"Ceph, an object of 20 MB is the same afterwards, {how}", filecmp.cmp(sent, got, False))
            packets, listens = cm.received(side, osd.pid), cm.listens(side)
            tally.result(f"Ceph, the OSD uses queue pairs, {how}", packets > 0 and listens == (more == BY_CM),
                         f"{packets} packets received; listens by librdmacm: {listens}")
        except Failure as failure:
            tally.result(f"Ceph, {how}", False, str(failure), cluster.says())
        finally:
            cluster.stop()


def main():
    harness.options(__doc__)
    harness.need_programs("ceph", "ceph-mon", "ceph-osd", "monmaptool", "rados")
    tally = harness.Tally("ceph")
    for way, more in (("addresses over TCP", ""), ("librdmacm", BY_CM)):
        for how, env in (("shared memory", {}), ("UDP", cm.UDP)):
            store(tally, f"{way}, {how}", harness.one_device_sides(19)[0], env, more)
    tally.finish()


if __name__ == "__main__":
    main()
