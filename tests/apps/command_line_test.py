#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the uroce command understands, and says of itself: what was mistyped, where devices are named, and that help,
manual, completion and documents have the same commands and options."""
import glob
import os
import re
import subprocess
import sys
import tempfile

import harness

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(harness.ROOT, "scripts"))
NOBODY = "127.0.0.250"  # an address that no device has
NO_DEVICE = f"no device '{NOBODY}' is open"


def text_of(*path):
    with open(os.path.join(harness.ROOT, *path), encoding="utf-8") as file:
        return file.read()


def said(tally, argv, code, *words):
    done = harness.uroce(*argv)
    text = done.stdout + done.stderr
    tally.result(f"uroce {' '.join(argv)}", done.returncode == code and all(word in text for word in words),
                 f"exit code {done.returncode}, expected {code} and {words}", text)


def mistyped(tally):
    for argv, words in ((["stats"], "uroce: no command 'stats'; did you mean stat or status?"),
                        (["hlep"], "no command 'hlep'; did you mean help?"),
                        (["nothing"], "no command 'nothing'; there are: up, down, "),
                        (["help", "cpature"], "no command 'cpature'; did you mean capture?"),
                        (["fault", "claer"], "uroce fault: no command 'claer'; did you mean clear?"),
                        (["stat", "--jsn"], "uroce stat: unknown option --jsn; did you mean --json?"),
                        (["fault", "--lss", "1%"], "uroce fault set: unknown option --lss; did you mean --loss?"),
                        (["fault", "--link", "dwn"], "no --link value 'dwn'; did you mean down?"),
                        (["status", "a", "b"], "uroce status: unknown argument b; see uroce status --help")):
        said(tally, argv, 2, words)
    from uroce_cmd.words import nearest
    for word, known, answer in (("abc", ["abd", "xyz"], "abd"), ("abc", ["xyz"], ""), ("ab", [], ""),
                                ("loss", ["lsos"], "lsos"), ("abcd", ["cdab"], "")):
        wanted = f"; did you mean {answer}?" if answer else ""
        tally.result(f"nearest to {word} of {known}", nearest(word, known) == wanted, nearest(word, known))


def helps(tally):
    for argv, same in ((["help"], ["--help"]), (["help", "stat"], ["stat", "--help"]),
                       (["help", "fault", "set"], ["fault", "set", "--help"]), (["help", "run"], ["run", "--help"])):
        one, other = harness.uroce(*argv), harness.uroce(*same)
        tally.result(f"uroce {' '.join(argv)} is uroce {' '.join(same)}",
                     one.returncode == 0 and one.stdout == other.stdout != "", f"exit code {one.returncode}",
                     one.stderr)


def devices_named(tally):
    """By argument, or --device, in all commands."""
    for argv in (["status"], ["stat"], ["stat", "--openmetrics"], ["stat", "--listen", "127.0.0.1:0"], ["down"],
                 ["fault"], ["fault", "--loss", "1%"], ["fault", "clear"], ["fault", "show"], ["fault", "--json"],
                 ["capture", "/dev/null"]):
        said(tally, [*argv, NOBODY], 3, NO_DEVICE)
        said(tally, [*argv, "--device", NOBODY], 3, NO_DEVICE)
    said(tally, ["capture", "/dev/null", "--count", "2", NOBODY], 3, NO_DEVICE)
    said(tally, ["capture", "/dev/null", "--seconds", "nan"], 2, "'nan' is not a time above 0")
    said(tally, ["capture", "/dev/null", "--count", "0"], 2, "'0' is not a count: give a whole number from 1 on")
    said(tally, ["up", "--device", "127.0.0.1x"], 1, "'127.0.0.1x' is neither an address")
    said(tally, ["stat", "127.0.0.251", "--device", NOBODY], 2, f"two devices are named, 127.0.0.251 and {NOBODY}")


def all_parsers(parser, name="uroce"):
    from uroce_cmd import words
    yield name, parser
    for word, deeper in words.subparsers(parser).items():
        yield from all_parsers(deeper, f"{name} {word}")


def synopsis(page):
    """@return {command: its long options} by the SYNOPSIS of a manual page"""
    found = {}
    block = re.search(r"^\.Sh SYNOPSIS\n(.*?)^\.Sh ", page, re.M | re.S)[1]
    for part in re.split(r"^\.Nm.*\n", block, flags=re.M)[1:]:
        command = re.match(r"\.Cm (.*)\n(\.Op Cm set\n)?", part)
        name = f"uroce {command[1]}" + (" set" if command[2] else "") if command else "uroce"
        found.setdefault(name, set()).update(f"--{word}" for word in re.findall(r"Fl Fl (\w[\w-]*)", part))
    return found


def alike(tally):
    """--help, the manual and the completion have the same options; documents name no others."""
    from uroce_cmd import main, words
    parsers = dict(all_parsers(main.parser_make()))
    manual = synopsis(text_of("docs", "uroce.1"))
    own = {name: {option for option in words.options(parser) if option.startswith("--")} - {"--help"}
           for name, parser in parsers.items()}
    for name in own:
        if words.subparsers(parsers[name]) and name != "uroce":
            continue  # fault: its verbs have the options
        tally.result(f"{name}: the manual has the options of --help", manual.get(name) == own[name],
                     f"{manual.get(name)}, --help {own[name]}")
        argv = name.split()[1:]
        if argv in (["run"], ["bench"]):
            continue
        done = harness.uroce("words", str(len(argv)), *argv, "--")
        tally.result(f"{name}: completion has the options of --help",
                     set(done.stdout.split()) == own[name] | {"--help"}, done.stdout, done.stderr)
        done = harness.uroce(*argv, "--help")
        tally.result(f"{name}: --help has them", own[name] <= set(re.findall(r"--\w[\w-]*", done.stdout)), done.stdout)
    tally.result("the manual has no other commands", set(manual) <= set(own), str(set(manual) - set(own)))


def documents(tally):
    """Commands and options of uroce in README.md and docs/ exist."""
    from uroce_cmd import fault, main, words
    parser, wrong, seen = main.parser_make(), [], 0
    for path in ["README.md", "CHANGELOG.md"] + glob.glob("docs/*.md", root_dir=harness.ROOT):
        text = text_of(path)
        for line in re.findall(r"(?:^scripts/uroce|`(?:scripts/)?uroce) ([a-z]+(?![\w.])[^`\n#|&;]*)", text, re.M):
            argv = fault.rewrite(line.split())
            deepest = words.deepest(parser, argv)
            known = set(words.options(deepest))
            if argv[0] not in words.subparsers(parser):
                wrong.append(f"{path}: uroce {line}")
            elif argv[0] not in ("run", "bench"):
                wrong += [f"{path}: uroce {line}: {word}" for word in argv if word.startswith("-") and word != "-"
                          and word not in known]
            seen += 1
    tally.result("documents: commands and options exist", seen > 15 and not wrong, f"{seen} seen", *wrong)


def runs(tally, folder):
    """uroce run speaks as what was typed, and ends as a shell does where there is no command to run."""
    plain = os.path.join(folder, "plain")
    with open(plain, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 7\n")
    run = os.path.join(harness.ROOT, "scripts", "uroce-run")
    for argv, code, words in ((["nosuch"], 127, "nosuch: command not found"),
                              (["./nosuch/x"], 127, "./nosuch/x: command not found"),
                              (["plain"], 126, f"{plain}: permission denied"),
                              ([folder], 126, f"{folder}: is a folder"),
                              (["--bad"], 2, "unknown option --bad; see "), (["-d"], 2, "-d needs a list"),
                              (["-n", "-p", "true"], 2, "--preload and --no-sysfs exclude each other; see "),
                              (["-b", "/nonexistent", "true"], 1, "uroce is not built here (looked in /nonexistent)"),
                              (["--device", "127.0.0.1", "sh", "-c", "exit $((7 + ${UROCE_COMMAND:+1}0))"], 7, ""),
                              (["--help"], 0, "")):
        for name, start in (("uroce run", [harness.UROCE, "run"]), ("uroce-run", [run])):
            done = subprocess.run([*start, *argv], capture_output=True, text=True, timeout=60, check=False,
                                  env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"))
            right = done.stderr.startswith(f"{name}: {words}") if words else f"usage: {name} " in done.stdout or code
            tally.result(f"{name} {' '.join(argv)}", done.returncode == code and right, f"exit code {done.returncode}",
                         done.stdout, done.stderr)
    os.chmod(plain, 0o755)
    tally.result("uroce run of a command in PATH", subprocess.run(
        [run, "plain"], check=False, env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")).returncode == 7,
        "another exit code")


def run_options(tally):
    """--help, the manual page and both completions of uroce-run have the same options."""
    done = subprocess.run([os.path.join(harness.ROOT, "scripts", "uroce-run"), "--help"], capture_output=True,
                          text=True, check=True)
    helped = set(re.findall(r"--[a-z][a-z-]+", done.stdout))
    manual = {f"--{word}" for word in re.findall(r"Fl Fl (\w[\w-]+)", text_of("docs", "uroce-run.1"))}
    zsh = set(re.findall(r"--[a-z][a-z-]+", text_of("scripts", "completion", "_uroce")))
    tally.result("uroce-run: the same options", len(helped) > 6 and helped == manual == zsh,
                 f"{helped ^ manual}, {helped ^ zsh}")
    completed = completion("uroce", "run", "--")
    tally.result("uroce run: completion of options", set(completed) == helped, str(completed))


def completion(*words):
    """@return what bash offers for the last word"""
    script = os.path.join(harness.ROOT, "scripts", "completion", "uroce.bash")
    done = subprocess.run(["bash", "-c", '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _uroce; '
                           'printf "%s\\n" "${COMPREPLY[@]}"', script, *words], capture_output=True, text=True,
                          timeout=60, check=False, cwd=harness.ROOT,
                          env=dict(os.environ, PATH=f"{harness.ROOT}/scripts:{os.environ['PATH']}"))
    return done.stdout.split()


def completions(tally):
    for words, offered, not_offered in (
            (("uroce", "run", "ibv_rc_pi"), "ibv_rc_pingpong", ""), (("uroce-run", "ibv_rc_pi"), "ibv_rc_pingpong", ""),
            (("uroce", "run", "-d", "x", "ibv_rc_pi"), "ibv_rc_pingpong", ""),
            (("uroce", "run", "--", "ibv_rc_pi"), "ibv_rc_pingpong", ""),
            (("uroce", "run", "--preload", "cat", "READ"), "README.md", ""),
            (("uroce", "run", "-b", "doc"), "docs", ""),
            (("uroce", "run", "-b", "READ"), "", "README.md"), (("uroce", "he"), "help", ""),
            (("uroce", "capture", "READ"), "README.md", ""), (("uroce", "help", "ru"), "run", "")):
        found = completion(*words)
        tally.result(f"completion of {' '.join(words)}", (not offered or offered in found)
                     and not_offered not in found, f"offers {found[:9]}")


def settings_documented(tally):
    """Each variable that the sources read is in both documents and in each list of settings, and no other is."""
    from uroce_cmd import words
    read = set()
    for folder in ("pmd", "verbs_shim"):
        for path in glob.glob(f"{folder}/**/*.c", root_dir=harness.ROOT, recursive=True):
            read |= set(re.findall(r'"UROCE_([A-Z_]+)"', text_of(path)))
    for path in ["scripts/uroce-run"] + glob.glob("scripts/uroce_cmd/*.py", root_dir=harness.ROOT):
        read |= set(re.findall(r'(?:environ(?:\.get\(|\[)"|\$\{)UROCE_([A-Z_]+)\b', text_of(path)))
    read = {name for name in read if not name.startswith("TEST_")} - {"COMMAND", "TOLD"}  # between our own programs
    shell = re.search(r"^settings='(.*)'", text_of("scripts", "uroce-run"), re.M)[1]
    lists = {"uroce-run": shell.split(), "the uroce command": words.SETTINGS}
    for path, pattern in (("docs/configuration.md", r"^\| `UROCE_([A-Z_]+)` \|"),
                          ("docs/uroce.7", r"^\.It Ev UROCE_([A-Z_]+)"),
                          ("pmd/include/settings.def", r"^PMD_SETTING\((\w+)\)")):
        lists[path] = re.findall(pattern, text_of(path), re.M)
    for what, names in lists.items():
        tally.result(f"{what} has each setting once", len(read) > 10 and sorted(names) == sorted(read),
                     f"{set(names) ^ read}")


def glossary(tally):
    """Our own words, which counters and messages have, are explained where users look."""
    page = text_of("docs", "uroce.7")
    sentences = "".join(text_of(*path) for path in (("pmd", "include", "port_stats.def"),
                                                   ("pmd", "include", "control_stats.def"),
                                                   ("pmd", "include", "uroced_stats.def")))
    for word in ("function", "visitor", "bell", "reference", "link", "device", "service"):
        tally.result(f"uroce.7 explains {word}", f".It Em {word}\n" in page and word in sentences, "it does not")


def settings_mistyped(tally):
    """Each is told once, whoever starts the program."""
    run = os.path.join(harness.ROOT, "scripts", "uroce-run")
    dropin = glob.glob(os.path.join(os.environ["UROCE_BUILD"], "verbs_shim", "ibverbs", "dropin"))
    wrong = {"UROCE_DEVICE": "127.0.0.1", "UROCE_RINGS": "off", "UROCE_IMAGE": "x", "UROCE_DEVICES": "127.0.0.1"}
    for name, argv, more in (("uroce run", [harness.UROCE, "run", "ibv_devices"], {}),
                             ("uroce-run", [run, "ibv_devices"], {}),
                             ("uroce-run", [run, "sh", "-c", "ibv_devices; ibv_devices"], {}),
                             ("uroce-run", [run, run, "ibv_devices"], {}),
                             ("uroce", ["ibv_devices"], {"LD_LIBRARY_PATH": dropin[0]}),
                             ("uroce", [harness.UROCE, "up", "nowhere"], {})):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, **wrong, **more})
        said = sorted(line for line in done.stderr.splitlines() if "did you mean" in line)
        tally.result(f"mistyped settings: {' '.join(argv[-3:])}", said == [
            f"{name}: UROCE_DEVICE is no setting; did you mean UROCE_DEVICES?",
            f"{name}: UROCE_RINGS is no setting; did you mean UROCE_RING?"], f"exit code {done.returncode}",
            done.stderr)
    done = subprocess.run([run, "sh", "-c", 'UROCE_KYE=x ibv_devices; echo "told: $UROCE_TOLD"'], capture_output=True,
                          text=True, timeout=60, check=False)
    tally.result("a setting that the program's caller mistypes", "uroce: UROCE_KYE is no setting" in done.stderr
                 and "told: \n" in done.stdout, done.stdout, done.stderr)


def main():
    harness.options(__doc__)
    harness.need_programs("ibv_devices")
    if os.geteuid() == 0:
        harness.own_namespace()
    tally = harness.Tally("command_line")
    mistyped(tally)
    helps(tally)
    devices_named(tally)
    alike(tally)
    documents(tally)
    with tempfile.TemporaryDirectory() as folder:
        runs(tally, folder)
    run_options(tally)
    completions(tally)
    settings_documented(tally)
    settings_mistyped(tally)
    glossary(tally)
    tally.finish()


if __name__ == "__main__":
    main()
