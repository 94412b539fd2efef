# SPDX-License-Identifier: BSD-3-Clause
"""The blocks of commands in documents, and a shell that runs them one after the other, from their very text."""
import os
import re
import shutil
import signal
import subprocess
import threading

import harness

MARK = "-- end of the block:"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document):
    """@return the text of each fenced block"""
    with open(os.path.join(harness.ROOT, document), encoding="utf-8") as f:
        return [match.group(2) for match in FENCE.finditer(f.read())]


def unwanted(where, names):
    """@return those names in a folder of the checkout that are build folders, or git's"""
    return [name for name in names if os.path.join(where, name) == os.environ["UROCE_BUILD"] or
            where == harness.ROOT and (name in ("build", ".git") or name.startswith("build-"))]


def sources(folder):
    """Copy the checkout: what git knows, and what it does not ignore; without git, all but build folders."""
    git = ["git", "-c", f"safe.directory={harness.ROOT}", "-C", harness.ROOT]
    listing = shutil.which("git") and subprocess.run([*git, "ls-files", "-z", "--cached", "--others",
                                                      "--exclude-standard"], capture_output=True, text=True,
                                                     check=False)
    if not listing or listing.returncode:
        shutil.copytree(harness.ROOT, folder, symlinks=True, ignore=unwanted)
        return
    for name in listing.stdout.split("\0")[:-1]:
        path = os.path.join(harness.ROOT, name)
        if os.path.isfile(path):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(path, os.path.join(folder, name))


class Shell:
    """A shell as a user has one open: what a block sets, the next one has. A block fails with any of its commands."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=folder, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace", preexec_fn=harness.die_with_parent,
                                        start_new_session=True)
        self.process.stdin.write("set -o pipefail; trap 'failed=1' ERR\n")

    def run(self, text, seconds=120):
        """@return (whether all commands succeeded, output)"""
        # The whole process group: what goes on would hold the output open.
        killer = threading.Timer(seconds, os.killpg, [self.process.pid, signal.SIGKILL])
        killer.start()
        try:
            # As lines of a file: no command reads the following ones as its input.
            self.process.stdin.write(f"failed=0\neval \"$(cat <<'END-OF-BLOCK'\n{text}END-OF-BLOCK\n)\" </dev/null\n"
                                     f"echo '{MARK}' $failed\n")
            self.process.stdin.flush()
            out = ""
            for line in self.process.stdout:
                if line.startswith(MARK):
                    return line.split()[-1] == "0", out
                out += line
            return False, out + "the shell has ended"
        except BrokenPipeError:
            return False, "the shell has ended"
        finally:
            killer.cancel()

    def close(self):
        """Also after it has been killed."""
        self.process.kill()
        self.process.communicate()


def run_all(tally, document, table, shell):
    """Run the blocks of a document. `table` has an entry for each, in their order: (how it begins, what its output
    must match) or (how it begins, None, why it is not run). A block that is neither run nor listed fails."""
    found = blocks(document)
    for text, entry in zip(found, table):
        name = f"{document}: {entry[0]}"
        if not text.startswith(entry[0]):
            tally.result(name, False, f"the block there begins with {text.splitlines()[0]}")
        elif entry[1] is None:
            print(f"not run: {name}: {entry[2]}")
        else:
            ok, out = shell.run(text)
            wrong = [pattern for pattern in entry[1:] if not re.search(pattern, out, re.DOTALL)]
            tally.result(name, ok and not wrong, "a command failed" if not ok else f"no {wrong} in its output", out)
    tally.result(f"{document}: each block is run or listed", len(found) == len(table),
                 f"{len(found)} blocks, {len(table)} are known to the test")
