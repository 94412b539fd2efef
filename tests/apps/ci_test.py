#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""action.yml, the template for GitLab, and the commands of docs/ci.md, from their own text: a small interpreter
(workflow.py) runs their steps, then programs as later steps.

In the suite that is on an overlay of this machine, with what the build folder has built put into the caches. With
--bare NAME it is in a bare tree of that distribution (scripts/distribution), where the action installs packages and
builds: minutes, and a mirror of packages is needed."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import blocks
import harness
import workflow

USER = 1000
SOURCES = "/runner/uroce"
CHECKOUT, RESTORE, SAVE = "actions/checkout@v4", "actions/cache/restore@v4", "actions/cache/save@v4"
DEVINFO = "hca_id:\turoce0"
PINGPONG = r"GID ::ffff:127\.0\.0\.2\n.*1000 iters in .*1000 iters in "
NAMES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "FI_PROVIDER_PATH", "UROCE_DEVICES")


class Store:
    """The cache of GitHub's: the action's two steps for it."""

    def __init__(self, machine):
        self.machine, self.restored = machine, None
        machine.folder_of("/runner/cache", 0)
        self.actions = {CHECKOUT: lambda job, given: {}, RESTORE: self.restore, SAVE: self.save,
                        "OWNER/uroce@main": lambda job, given: job.action(SOURCES, given)}

    def copy(self, source, target, user):
        """Replace what is at a path of the machine."""
        os.makedirs(self.machine.root + os.path.dirname(target), exist_ok=True)
        subprocess.run(["rm", "-rf", self.machine.root + target], check=True)
        subprocess.run(["cp", "-a", self.machine.root + source, self.machine.root + target], check=True)
        subprocess.run(["chown", "-R", f"{user}:{user}", self.machine.root + target], check=True)

    def has(self, key):
        return os.path.exists(f"{self.machine.root}/runner/cache/{key}")

    def restore(self, job, given):
        if self.has(given["key"]):
            self.copy(f"/runner/cache/{given['key']}", given["path"], job.user)
            return {"cache-hit": "true"}
        return {}

    def save(self, _, given):
        self.copy(given["path"], f"/runner/cache/{given['key']}", 0)
        return {}


def placeholder(tally):
    """OWNER, the account that has the repository: each file that has it says so once, and the action does without."""
    paths = [path for top in ("*", ".github/**", "debian/**", "deploy/**", "docs/**", "scripts/**")
             for path in glob.glob(os.path.join(harness.ROOT, top), recursive=True) if os.path.isfile(path)]
    there = {}
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if "OWNER/" in text:
            there[os.path.relpath(path, harness.ROOT)] = len(
                re.findall(r"OWNER`?(?: on this page)?(?: is|:)\s+the\s+account", text))
    tally.result("OWNER is explained where it stands", there == dict.fromkeys(
        ("README.md", "docs/ci.md", "deploy/uroce.gitlab-ci.yml"), 1), str(there))


def key_of(machine, **environment):
    return machine.run([f"{SOURCES}/scripts/ci", "key"], 0, {"PATH": workflow.PATH, **environment}, "/")[1].strip()


def installed(build, machine, path):
    """Put what the build folder has built where the machine's jobs expect it, at a path."""
    with tempfile.TemporaryDirectory(prefix="uroce-ci-install-") as folder:
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder], check=True,
                       stdout=subprocess.DEVNULL)
        prefix = os.path.dirname(next(where for where, _, names in os.walk(folder)
                                      if os.path.basename(where) == "bin" and "uroce-run" in names))
        os.makedirs(machine.root + os.path.dirname(path), exist_ok=True)
        shutil.copytree(prefix, machine.root + path, symlinks=True)


def later_steps(tally, name, job):
    """Steps after the action find the devices, by the variables alone."""
    for run, pattern in (("ibv_devinfo", DEVINFO), ("uroce status", "link up|No device is open"),
                         ("cat /sys/class/infiniband/uroce1/ports/1/state", "ACTIVE")):
        job.log = ""
        try:
            job.steps([{"run": run}], None, {}, ["bash", "-e"])
            tally.result(f"{name}: later step: {run}", re.search(pattern, job.log) is not None, "", job.log)
        except workflow.Failed as why:
            tally.result(f"{name}: later step: {run}", False, str(why), job.log)


def documented(tally, name, machine, store, user):
    """The workflow of docs/ci.md. @return the job"""
    text = next(text for text in blocks.blocks("docs/ci.md") if text.startswith("jobs:"))
    job = workflow.Github(machine, user, store.actions)
    try:
        job.job(text, "test")
        tally.result(f"{name}: the workflow of docs/ci.md", DEVINFO in job.log and
                     re.search(PINGPONG, job.log, re.DOTALL) is not None, "", job.log)
    except workflow.Failed as why:
        tally.result(f"{name}: the workflow of docs/ci.md", False, str(why), job.log)
    return job


def inputs(tally, machine, store):
    """What the action's inputs and outputs say."""
    job = workflow.Github(machine, 0, store.actions)
    prefix = "/runner/elsewhere"
    store.copy(f"/runner/cache/{key_of(machine)}", prefix, 0)
    subprocess.run(["rm", "-rf", f"{machine.root}/runner/cache"], check=True)
    given = job.action(SOURCES, {"prefix": prefix, "devices": "auto", "cache": "false"})
    tally.result("a prefix", given == {"prefix": prefix, "cache-hit": ""} and f"{prefix}/bin" in job.path, str(given))
    tally.result("auto: no devices are named", "UROCE_DEVICES" not in job.later, str(job.later))
    tally.result("without the cache nothing is saved", not os.path.exists(f"{machine.root}/runner/cache"))
    given = workflow.Github(machine, 0, store.actions).action(SOURCES, {"prefix": prefix})
    tally.result("what is not in the cache is saved", given["cache-hit"] == "" and store.has(key_of(machine)))
    given = workflow.Github(machine, 0, store.actions).action(SOURCES, {"devices": "127.0.0.3"})
    tally.result("and found the next time", given["cache-hit"] == "true", str(given))
    try:
        workflow.Github(machine, 0, store.actions).action(SOURCES, {"prefix": "/runner/two words"})
        tally.result("a prefix with a blank is refused", False, "it is not")
    except workflow.Failed as why:
        tally.result("a prefix with a blank is refused", True, str(why))


def keys(tally, machine):
    """The cache's key depends on the sources, and on meson's options."""
    before = key_of(machine)
    path = f"{machine.root}{SOURCES}/nic/meson.build"
    with open(path, "a", encoding="utf-8") as f:
        f.write("#\n")
    changed = key_of(machine)
    with open(path, "r+", encoding="utf-8") as f:
        text = f.read()
        f.seek(0)
        f.truncate()
        f.write(text.removesuffix("#\n"))
    more = key_of(machine, MESON_ARGS="-Dkey=disabled")
    tally.result("the key of the cache", len({before, changed, more}) == 3 and key_of(machine) == before,
                 f"{before} {changed} {more}")


def rolling(tally, machine):
    """The key is a name that `scripts/ci install` takes, also where os-release has no version, or odd bytes."""
    path = "/runner/os-release"
    for text, system in (("ID=debian\nVERSION_CODENAME=forky\n", "debian-forky"), ("ID=arch\n", "arch-_"),
                         ("ID=\"o's\"\nVERSION_ID='1/2~3'\n", "o_s-1_2_3")):
        with open(machine.root + path, "w", encoding="utf-8") as f:
            f.write(text)
        key = key_of(machine, UROCE_OS_RELEASE=path)
        code, out = machine.run([f"{SOURCES}/scripts/ci", "environment", f"/runner/{key}"], 0, {"PATH": workflow.PATH},
                                "/")
        tally.result(f"the key of {system}", key.startswith(f"uroce-{system}-") and "the name of this folder" not in
                     out, f"{key}, exit code {code}", out)


def repository(machine):
    """Make a repository of the sources on the machine. @return variables that have git take it for uroce's."""
    git = ["git", "-C", SOURCES, "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for argv in (["git", "init", "-q", "-b", "main", SOURCES], [*git, "add", "-A"], [*git, "commit", "-qm", "sources"]):
        code, out = machine.run(argv, 0, {"PATH": workflow.PATH, "HOME": "/root"}, "/")
        if code:
            raise RuntimeError(out)
    return {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": f"url.{SOURCES}.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/OWNER/uroce",
            "GIT_CONFIG_KEY_1": "safe.directory", "GIT_CONFIG_VALUE_1": "*"}


def gitlab(tally, machine, store, git):
    """The template, in the pipeline of docs/ci.md: what the first job finds in the cache, the second does as well."""
    text = next(text for text in blocks.blocks("docs/ci.md") if text.startswith("include:"))
    with open(os.path.join(harness.ROOT, "deploy/uroce.gitlab-ci.yml"), encoding="utf-8") as f:
        template = f.read()
    tally.result("docs/ci.md names the template's file", "/deploy/uroce.gitlab-ci.yml\n" in text, text)
    runner = workflow.Gitlab(machine, 0)
    key = key_of(machine)
    kept = f"{runner.cache}/uroce-rdma/.uroce/installed"
    store.copy(f"/runner/cache/{key}", f"{kept}/{key}", 0)
    store.copy(f"/runner/cache/{key}", f"{kept}/uroce-old", 0)
    for turn in ("the first job", "the next"):
        out = ""
        try:
            out = runner.run(text, template, "rdma", git)
            tally.result(f"GitLab: {turn}", DEVINFO in out and re.search(PINGPONG, out, re.DOTALL) is not None, "", out)
        except workflow.Failed as why:
            tally.result(f"GitLab: {turn}", False, str(why), out)
    tally.result("GitLab: the cache", os.listdir(f"{machine.root}{runner.work}/project/.uroce/installed") == [key] and
                 key in os.listdir(machine.root + kept), str(os.listdir(machine.root + kept)))


def commands(tally, machine, store, git):
    """The commands for other systems."""
    machine.folder_of("/runner/shell", 0)
    store.copy(f"/runner/cache/{key_of(machine)}", "/runner/shell/uroce-installed", 0)
    text = next(text for text in blocks.blocks("docs/ci.md") if text.startswith("git clone"))
    code, out = machine.run(["bash", "-ec", text + "env\n"], 0, {"PATH": workflow.PATH, "HOME": "/runner/shell", **git},
                            "/runner/shell")
    tally.result("docs/ci.md: git clone", code == 0 and DEVINFO in out and all(f"\n{name}=" in out for name in NAMES),
                 f"exit code {code}", out)


def bare(tally, name, tree):
    """Everything, in a bare tree: packages, build, cache."""
    with tempfile.TemporaryDirectory(prefix="uroce-ci-bare-") as folder:
        tree = tree or os.path.join(folder, "tree")
        made = subprocess.run([f"{harness.ROOT}/scripts/distribution", "--tree", tree, "--groups", "", name, "true"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode:
            harness.skip(f"no bare tree of {name}: {made.stdout}")
        machine = workflow.Machine(tree)
        shutil.rmtree(machine.root + SOURCES, ignore_errors=True)
        blocks.sources(machine.root + SOURCES)
        store = Store(machine)
        job = documented(tally, name, machine, store, 0)
        later_steps(tally, name, job)
        tally.result(f"{name}: what was built is in the cache", store.has(key_of(machine)))
        job = documented(tally, f"{name}, again, as a user", machine, store, USER)
        tally.result(f"{name}: it was not built again", "uroce is in " in job.log, "", job.log)
        machine.close()
        subprocess.run(["rm", "-rf", tree + "/runner"], check=True)


def main():
    args = harness.options(__doc__, ("--bare", "a distribution, as scripts/distribution calls it", ""),
                           ("--tree", "a bare tree of it to use, or where to make and keep one", ""))
    harness.need_root()
    harness.need_programs("unshare", "nsenter", "chroot", "ip", "git", *([] if args.bare else ["meson"]))
    tally = harness.Tally("ci")
    if args.bare:
        bare(tally, args.bare, args.tree)
        tally.finish()
    machine = workflow.Machine()
    blocks.sources(machine.root + SOURCES)
    store = Store(machine)
    installed(os.path.abspath(args.build), machine, f"/runner/cache/{key_of(machine)}")
    found = blocks.blocks("docs/ci.md")
    tally.result("docs/ci.md: each block is run", [text.split()[0] for text in found] == ["jobs:", "include:", "git"],
                 str(found))
    for name, user in (("root", 0), ("a user", USER)):
        job = documented(tally, name, machine, store, user)
        later_steps(tally, name, job)
        tally.result(f"{name}: the variables", set(job.later) >= set(NAMES), str(job.later))
    placeholder(tally)
    keys(tally, machine)
    rolling(tally, machine)
    git = repository(machine)
    gitlab(tally, machine, store, git)
    commands(tally, machine, store, git)
    try:
        inputs(tally, machine, store)
    except workflow.Failed as why:
        tally.result("the action's inputs", False, str(why))
    machine.close()
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
