#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/containers.md, compose.yaml with podman-compose, and the manifests of deploy/kubernetes with
`podman kube play`: from their own text, with an image made of this machine's files (images.py)."""
import os
import re
import shutil
import subprocess
import sys

import blocks
import containerfile
import harness
import images
import kube  # pylint: disable=unused-import  # skips where it lacks something

BANDWIDTH = r"\n(?:\S*\[host\d\] \|\S* )? 65536 +5000 +[\d.]+ +\d"  # podman-compose 1.3 names the host in each line
RING = r"time for \d+ loops"
CONTAINERS = (
    ("podman build -t uroce .", r"hca_id:\s+uroce0"),
    ('podman build --build-arg WITH="libfabric ucx"', r"provider: uroce\n", RING),
    ("FROM docker.io", None, "no registry can be reached; image_test.py carries it out"),
    ("podman network create", BANDWIDTH, r"Mtu\s+: 4096"),
    ("podman run -d --name first", r"t_avg\[usec\].*\n 2 +1000 +[\d.]+"),
    ("podman-compose up", r"\A(?!.*exit code: [1-9])", BANDWIDTH + ".*" + BANDWIDTH,
     RING + r".*\(2 processes, 65536 bytes\)"),
    ("image=localhost/uroce", BANDWIDTH + ".*" + BANDWIDTH),
    ("mkdir -p key", RING + r".*\(2 processes, 65536 bytes\)"),
)
KUBECTL = '''exec {python} -c 'import shlex, subprocess, sys
sys.path.insert(0, "{here}")
import kube
def ask(*argv):
    done = subprocess.run(["podman", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(done.stdout)
    return done.stdout.strip()
sys.exit(kube.kubectl(kube.Cluster(ask, "{folder}"), sys.argv[1:]))' "$@"'''


def build_arguments(tally):
    """The names that WITH takes, in docs/containers.md, are groups of packages."""
    with open(os.path.join(harness.ROOT, "docs/containers.md"), encoding="utf-8") as f:
        names = re.findall(r"^\| `(\w+)` \|", f.read(), re.MULTILINE)[1:]
    for name in names:
        done = subprocess.run([f"{harness.ROOT}/scripts/packages", "list", name], capture_output=True, text=True,
                              check=False)
        tally.result(f"WITH={name}", done.returncode == 0 and done.stdout.strip(), done.stderr)
    tally.result("variants", names == ["libfabric", "ucx", "openmpi"], str(names))
    with_all = containerfile.stages({"WITH": " ".join(names)})[-1]
    runs = [step for step in with_all.steps if step[0] == "RUN"]
    tally.result("WITH reaches the steps", any("${WITH}" in step[1] and step[2]["WITH"] == " ".join(names)
                                               for step in runs), str(runs))


def image_by_variable(tally, shell):
    dry = "UROCE_IMAGE=registry.example/mine podman-compose {} --dry-run up"
    # Version 1.3 shows the commands with --verbose, which 1.0 does not know.
    ok, out = shell.run(f"{dry.format('--verbose')} || {dry.format('')}\n")
    hosts = re.findall(r"podman create .* registry\.example/mine sh -ec", out)
    tally.result("compose.yaml: the image by a variable", ok and len(hosts) == 2, "", out)


def pod(tally, shell):
    """docs/containers.md starts it, and shows the other job's output."""
    ok, out = shell.run("kubectl wait --timeout=60s pod/uroce-pod && kubectl logs pod/uroce-pod\n")
    tally.result("pod.yaml", ok and len(re.findall(BANDWIDTH, out)) == 2, "", out)
    ok, out = shell.run("kubectl delete -f deploy/kubernetes/pod.yaml; podman pod ps --format '{{.Name}}'\n")
    tally.result("pod.yaml: deleted", ok and "uroce-pod" not in out and "uroce-mpi-0" in out, "", out)


def signals(tally, host):
    """A signal to `uroce-mpi run` ends mpirun and the other host's serve, and is what the exit code tells."""
    host.ask("network", "create", "signals")
    for signum, code in (("TERM", "143"), ("INT", "130")):
        host.ask("volume", "create", f"key-{signum}")
        options = ["--detach", "--network=signals", f"--volume=key-{signum}:/job", "--user=1000", "--pull=never"]
        host.ask("run", *options, f"--name=other-{signum}", "localhost/uroce", "uroce-mpi", "serve", "/job")
        host.ask("run", *options, f"--name=run-{signum}", "localhost/uroce", "uroce-mpi", "run", "/job",
                 f"run-{signum},other-{signum}", "-np", "2", "sh", "-c", "echo begun; sleep 600")
        begun = harness.until(60, lambda: host.ask("logs", f"run-{signum}").count("begun") == 2)
        host.ask("kill", "--signal", signum, f"run-{signum}")
        for name, expected in ((f"run-{signum}", code), (f"other-{signum}", "0")):
            done = harness.until(60, lambda name=name: host.ask("inspect", "--format", "{{.State.Status}}", name) ==
                                 "exited")
            got = host.ask("inspect", "--format", "{{.State.ExitCode}}", name)
            tally.result(f"SIG{signum} to uroce-mpi run: {name} ends", begun and done and got == expected,
                         f"begun: {begun}, ended: {done}, exit code {got}", host.ask("logs", name))
        host.ask("rm", "--force", "--time", "0", f"run-{signum}", f"other-{signum}")


def main():
    build = harness.options(__doc__).build
    harness.need_root()
    harness.need_programs("unshare", "nsenter", "ip", *images.PROGRAMS)
    for name in ("podman", "podman-compose", "catatonit"):
        if not shutil.which(name):
            harness.skip(f"{name} is not installed; scripts/packages install containers")
    images.sshd()
    host = images.Host(os.path.abspath(build))
    host.install()
    tally = harness.Tally("deploy")
    build_arguments(tally)
    os.mkdir(f"{host.folder}/cluster")
    folder = os.path.join(host.folder, "checkout")
    blocks.sources(folder)
    environment = host.commands()
    host.script("kubectl", KUBECTL.format(python=sys.executable, here=os.path.dirname(os.path.abspath(__file__)),
                                          folder=f"{host.folder}/cluster"))
    shell = blocks.Shell(folder, environment)
    blocks.run_all(tally, "docs/containers.md", CONTAINERS, shell)
    pod(tally, shell)
    image_by_variable(tally, shell)
    signals(tally, host)
    shell.close()
    tally.finish()


if __name__ == "__main__":
    main()
