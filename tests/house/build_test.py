#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A build without tests, and a build that shows its progress.

-Dtests=false has no tests and installs the same files as this build. scripts/progress.sh: its lines, its readers of
logs, exit codes, signals; build_make: a failed build, and a folder that gets its tests later.
"""
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NINJA_LOG = "Found ninja\n[1/470] Compiling C object a.o\nwarning: [7/9]\n[120/470] Linking target b\n"
TESTS_LOG = """ninja: Entering directory
 1/118 uroce:unit / test_psn            OK              0.01s
 2/118 uroce:unit / test_icrc           FAIL            0.02s   exit status 1
>>> 1/2 of something OK
 3/118 uroce:unit+apps / test_crc       SKIP            0.01s
 4/118 uroce:sim / seeds_1              TIMEOUT        60.00s   killed by signal 15
Summary of Failures:
 4/118 uroce:sim / seeds_1              TIMEOUT        60.00s   killed by signal 15
"""
APT_LOG = """The following NEW packages will be installed:
2 upgraded, 95 newly installed, 0 to remove and 3 not upgraded.
Get:1 http://deb.debian.org/debian bookworm/main amd64 libnuma1 amd64 2.0.16-1 [21.0 kB]
Get:2 http://deb.debian.org/debian bookworm/main amd64 meson all 1.0.1-5 [700 kB]
"""


class Failed(Exception):
    pass


def check(holds, why):
    if not holds:
        raise Failed(why)


def bash(text, *args):
    """Run a script that has scripts/lib.sh; @return its exit code and its output, both streams."""
    run = subprocess.run(["bash", "-c", f'. "{ROOT}/scripts/lib.sh"\n{text}', "script", *args], text=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return run.returncode, run.stdout


def info(build, name):
    with open(os.path.join(build, "meson-info", f"intro-{name}.json"), encoding="utf-8") as f:
        return json.load(f)


def configure(build, folder):
    """Configure a build like this one, without tests."""
    keep = [f"-D{option['name']}={option['value']}" for option in info(build, "buildoptions")
            if option["name"] in ("b_lundef", "b_sanitize", "libdir", "prefix")
            or option["section"] == "user" and option["name"] not in ("fuzz", "tests")]
    compilers = [source["compiler"] for target in info(build, "targets") for source in target["target_sources"]
                 if source.get("language") == "c"]
    run = subprocess.run(["meson", "setup", folder, ROOT, "-Dtests=false", *keep], text=True, check=False,
                         env={**os.environ, "CC": shlex.join(compilers[0])}, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(run.returncode == 0, run.stdout)


def without_tests(build, work):
    folder = os.path.join(work, "few")
    configure(build, folder)
    check(not info(folder, "tests"), "-Dtests=false has tests")
    there, installed = info(folder, "targets"), info(folder, "installed")
    extra = [target["name"] for target in there if "/tests/" in target["defined_in"] or "points" in target["name"]]
    check(not extra, f"-Dtests=false builds {extra}")
    wanted, got = set(info(build, "installed").values()), set(installed.values())
    check(got == wanted, f"installed with tests only or without only: {sorted(wanted ^ got)}")
    engine = next(option["value"] for option in info(build, "buildoptions") if option["name"] == "engine")
    check(wanted or engine == "disabled", "nothing is installed")
    # What is installed and is not in the sources comes from one of these targets.
    made = {name for target in there for name in target["filename"] if target["build_by_default"]}
    lost = [path for path in installed if not os.path.exists(path) and path not in made
            and not re.match(r"libibverbs\.so(\.1)?$", path)]  # links that meson makes
    check(not lost, f"nothing builds {lost}")


def gets_tests_later(build, work):
    folder = os.path.join(work, "few")
    code, said = bash('build_has_tests "$1"; echo "code $?"; build_has_tests "$2"; echo "code $?"', folder, build)
    check((code, said) == (0, "code 1\ncode 0\n"), f"which folder has tests: {said}")
    # Instead of compiling, a ninja that says what it was called with.
    fake = 'exec() { echo "$@"; }\n'
    code, said = bash(fake + 'build_steps "$1" -Dtests=false && build_has_tests "$1"', folder)
    check(code == 1 and "ninja -C" in said, f"a folder without tests is not left as it is: {said}")
    code, said = bash(fake + 'build_steps "$1" -Dtests=true', folder)
    check(code == 0 and "ninja -C" in said, said)
    subprocess.run(["meson", "setup", "--reconfigure", folder, ROOT], check=True, stdout=subprocess.DEVNULL,
                   stdin=subprocess.DEVNULL)
    check(info(folder, "tests"), "-Dtests=true does not reach a folder that was configured without tests")


def failing_build(_, work):
    """A build that fails ends the script, and the end of its output is shown; all of it is in the log."""
    folder = os.path.join(work, "bad")
    os.makedirs(folder)
    with open(os.path.join(folder, "build.ninja"), "w", encoding="utf-8") as f:
        f.write("rule good\n command = seq 1 100 && touch $out\nrule bad\n command = echo it breaks here; exit 3\n"
                "build a: good\nbuild b: bad a\nbuild c: bad b\n")
    code, said = bash('build_make "$1"; echo "went on"', folder)
    check(code == 1 and "went on" not in said, f"a failed build goes on: {code}, {said}")
    check("it breaks here" in said and "the build failed; see" in said, f"the failure is not shown: {said}")
    check("building: 2 of 3" in said, f"no last line of progress: {said}")
    check(len(said.splitlines()) < 50, f"more than the end of the output is shown: {said}")
    with open(os.path.join(folder, "build-log.txt"), encoding="utf-8") as f:
        log = f.read()
    check("\n1\n2\n3\n" in log and "it breaks here" in log, f"not all of the output is in the log: {log}")


def lines_in_a_log(_, work):
    """A line of progress comes while the command runs: the command waits until it is there."""
    out, log = os.path.join(work, "out"), os.path.join(work, "log")
    code, said = bash('job() { echo "[1/2] a"; until grep -q "building: 1 of 2" "$1"; do sleep 0.05; done\n'
                      'echo "[2/2] b"; return 7; }\nPROGRESS_EVERY=0.1\n'
                      'progress_run building "$2" progress_of_build job "$1" >"$1"; echo "code $?"', out, log)
    check((code, said) == (0, "code 7\n"), f"the command's exit code is lost: {code}, {said}")
    with open(out, encoding="utf-8") as f:
        lines = f.read().splitlines()
    check(lines[-1] == "building: 2 of 2", f"the last line is not the end: {lines}")


def news_in_a_log(_, work):
    """What PROGRESS_NEWS passes is printed while the command runs: the command waits until it is there."""
    out, log = os.path.join(work, "out"), os.path.join(work, "log")
    code, said = bash('job() { echo good; echo bad; until grep -q bad "$1"; do sleep 0.05; done; echo worse; }\n'
                      'news() { grep --line-buffered -v good; }\n'
                      'PROGRESS_NEWS=news progress_run building "$2" progress_of_build job "$1" >"$1"', out, log)
    check((code, said) == (0, ""), f"the command fails: {code}, {said}")
    with open(out, encoding="utf-8") as f:
        lines = f.read().splitlines()
    check([line for line in lines if ":" not in line] == ["bad", "worse"], f"other news: {lines}")


def readers(_, work):
    path = os.path.join(work, "log")
    for reader, text, want in (
            ("build", "The Meson build system\n", "configuring"), ("build", NINJA_LOG, "120 of 470"),
            ("build", "[0/1] Regenerating build files.\nninja: no work to do.\n", "nothing to do"),
            ("tests", "ninja: Entering\n", "no test is done yet"),
            ("tests", TESTS_LOG, "4 tests done, 2 failed (test_icrc seeds_1), 114 left"),
            ("deb", "   dh_auto_configure\nThe Meson build system\n", "dh_auto_configure"),
            ("deb", "   dh_auto_build\n[17/318] cc -c a.c\n", "17 of 318"),
            ("deb", "[318/318] cc b.o\n   dh_strip -O--buildsystem=meson\n", "dh_strip"),
            ("guest", "[    2.1] virtio\n", "the machine starts"),
            ("guest", "1/9 a OK 0 s\n2/9 b SKIP 1 s\n3/9 c FAIL, exit code 1 9 s\n    3/4 no\n4/9 d TIMEOUT 9 s\n",
             "4 of 9 tests done, 2 failed (c d)"),
            ("packages", "Reading package lists...\n", "preparing"),
            ("packages", APT_LOG, "downloading 2 of 97: meson"),
            ("packages", APT_LOG + "Unpacking meson (1.0.1-5) ...\n", "unpacking 1 of 97: meson"),
            ("packages", APT_LOG + "Setting up libnuma1:amd64 (2.0) ...\n", "setting up 1 of 97: libnuma1:amd64")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        code, said = bash(f'progress_of_{reader} "$1"', path)
        check((code, said) == (0, want + "\n"), f"{reader}: {said} instead of {want}")


def signals(_, work):
    """SIGHUP, SIGINT and SIGTERM end the script, and all that it started; its own handlers run."""
    cases = (("INT", "", -signal.SIGINT), ("TERM", "", -signal.SIGTERM), ("HUP", "", -signal.SIGHUP),
             ("INT", "trap 'exit 130' INT", 130), ("TERM", "trap 'exit 143' TERM", 143))
    for news, (name, handler, want) in itertools.product(("", "cat"), cases):
        pids = os.path.join(work, f"pids-{news}-{name}-{want}")
        text = (f'. "{ROOT}/scripts/lib.sh"\nset -e\ntrap "echo cleaned up" EXIT\n{handler}\n'
                'job() { sleep 600 & echo "$BASHPID $!" >"$1.new"; mv "$1.new" "$1"; echo "[1/2] a"; wait; }\n'
                f'PROGRESS_EVERY=0.1\nPROGRESS_NEWS={news}\n'
                'progress_run building "$2" progress_of_build job "$1"; echo "went on"')
        with subprocess.Popen(["bash", "-c", text, "script", pids, os.path.join(work, "log")], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as script:
            for line in script.stdout:
                if "1 of 2" in line and os.path.exists(pids):
                    break
            script.send_signal(getattr(signal, f"SIG{name}"))
            said = script.stdout.read()
        check(script.returncode == want, f"SIG{name}: {script.returncode} instead of {want}")
        check("went on" not in said and "cleaned up" in said, f"SIG{name}: {said}")
        with open(pids, encoding="utf-8") as f:
            left = [pid for pid in f.read().split() if running(pid)]
        check(not left, f"SIG{name} leaves processes: {left}")


def running(pid):
    """@return whether the process is there and not merely waiting for somebody to ask for its exit code."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def main():
    failed = 0
    for name in (signal.SIGHUP, signal.SIGINT):
        signal.signal(name, signal.SIG_DFL)  # a shell cannot catch what was ignored when it started
    with tempfile.TemporaryDirectory() as work:
        for case in (without_tests, gets_tests_later, failing_build, lines_in_a_log, news_in_a_log, readers,
                     signals):
            try:
                case(sys.argv[1], work)
                print("ok", case.__name__, flush=True)
            except Failed as why:
                failed += 1
                print("FAIL", f"{case.__name__}: {why}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
