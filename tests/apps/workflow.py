# SPDX-License-Identifier: BSD-3-Clause
"""Runs jobs of GitHub Actions and of GitLab CI as far as our files need it: a composite action's steps with their
conditions, expressions and files of the environment; a job that extends a template. What is not known here is refused,
not skipped. The machine that they run on is a tree (Machine).
"""
import os
import re
import shlex
import shutil
import subprocess
import tempfile

import harness

try:
    import yaml
except ImportError:
    harness.skip("Python's yaml is not installed; scripts/packages install containers")

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The tree is an overlay of this machine's root, so nothing changes there, or a bare tree. Runs as PID 1.
SETUP = """
set -e
root=$1/root
ip link set lo up
if [ -z "$2" ]; then
	mount -t tmpfs tmpfs $1
	mkdir $1/upper $1/work $root
	mount -t overlay overlay -o lowerdir=/,upperdir=$1/upper,workdir=$1/work $root
else
	mkdir $root
	mount --bind $2 $root
fi
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount --rbind /dev $root/dev
mount -t tmpfs tmpfs $root/run
mount -t tmpfs tmpfs $root/tmp
chmod 1777 $root/tmp
mkdir -p $root/runner
echo ready
sleep infinity
exit 0
"""


class Machine:
    """A machine on which jobs run: an overlay of this one without a network, or a bare tree that may install packages
    over this one's network. It ends with the test."""

    def __init__(self, bare=""):
        self.folder = tempfile.mkdtemp(prefix="uroce-ci-")
        unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.holder = subprocess.Popen([*unshare, "sh", "-c", SETUP, "sh", self.folder, bare], stdout=subprocess.PIPE,
                                       text=True, preexec_fn=harness.die_with_parent)
        if self.holder.stdout.readline().strip() != "ready":
            self.close()
            harness.skip("namespaces with a tree of their own cannot be made here (unshare, overlay)")
        pid = self.holder.pid
        self.root = f"/proc/{pid}/root{self.folder}/root"
        self.bare, self.network = bare, [f"--net=/proc/{pid}/ns/net"]
        self.enter = [f"--mount=/proc/{pid}/ns/mnt", f"--pid=/proc/{pid}/ns/pid_for_children", "chroot"]
        self.proxies = {name: os.environ[name] for name in ("http_proxy", "https_proxy") if bare and name in os.environ}

    def close(self):
        self.holder.kill()
        self.holder.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def file(self, path, text=""):
        """Make a file that all users may write."""
        with open(self.root + path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.root + path, 0o777)
        return path

    def folder_of(self, path, user):
        """Make an empty folder that belongs to a user."""
        shutil.rmtree(self.root + path, ignore_errors=True)
        os.makedirs(self.root + path)
        os.chown(self.root + path, user, user)
        return path

    def run(self, argv, user, environment, cwd, installs=False, seconds=600):
        """Run a command until it ends; what it started in the background may go on. One that installs packages has
        the network of this machine, if the tree is a bare one. @return (exit code, output)"""
        settings = [f"{name}={value}" for name, value in {**self.proxies, **environment}.items()]
        network = [] if installs and self.bare else self.network
        command = ["nsenter", *network, *self.enter, f"--userspec={user}:{user}", "--groups=", f"{self.folder}/root",
                   "env", "-i", *settings, "sh", "-c", 'cd "$0" && exec "$@"', cwd, *argv]
        process = harness.Process(command)
        code = process.wait(seconds)
        out = process.output()
        return (code, out) if code is not None else (124, f"{out}ended after {seconds} seconds\n")


class Failed(Exception):
    """A step or a line failed."""


def evaluate(expression, values):
    """An expression of GitHub's: names, strings, ==, !=, &&, ||, !, parentheses. @return a string or a truth value"""
    words = re.findall(r"'(?:[^']|'')*'|[\w.-]+|==|!=|&&|\|\||[!()]|\S", expression)
    known = {"==": "==", "!=": "!=", "&&": " and ", "||": " or ", "!": " not ", "(": "(", ")": ")"}
    python = ""
    for word in words:
        if word in known:
            python += known[word]
        elif word.startswith("'"):
            python += repr(word[1:-1].replace("''", "'"))
        else:
            python += repr(values(word))
    return eval(python, {"__builtins__": {}})  # pylint: disable=eval-used


class Github:
    """A job: what its steps leave to later ones. Actions that it uses are given: {name: function(job, with)}."""

    STEP = {"id", "if", "name", "shell", "env", "run", "uses", "with"}

    def __init__(self, machine, user, actions):
        self.machine, self.user, self.actions = machine, user, actions
        self.work = machine.folder_of("/runner/job", user)
        for name in ("work", "temp", "home"):
            machine.folder_of(f"/runner/job/{name}", user)
        self.later, self.path, self.log, self.count = {}, [], "", 0

    def environment(self, more):
        env = {"PATH": ":".join([*reversed(self.path), PATH]), "HOME": f"{self.work}/home", "CI": "true",
               "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": f"{self.work}/work", "RUNNER_TEMP": f"{self.work}/temp",
               "RUNNER_OS": "Linux", "LANG": "C.UTF-8"}
        return {**env, **self.later, **more}

    def expand(self, text, values):
        """Replace ${{ }}."""
        return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(evaluate(match.group(1), values)), str(text))

    def execute(self, step, values, more, shell, installs):
        """Run the command of a step. @return its outputs"""
        self.count += 1
        files = {name: self.machine.file(f"{self.work}/{name.lower()}-{self.count}")
                 for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
        script = self.machine.file(f"{self.work}/step-{self.count}.sh", self.expand(step["run"], values))
        env = {name: self.expand(value, values) for name, value in step.get("env", {}).items()}
        code, out = self.machine.run([*shell, script], self.user, self.environment({**more, **env, **files}),
                                     f"{self.work}/work", installs)
        self.log += out
        if code:
            raise Failed(f"exit code {code}: {step['run']}")
        self.later.update(self.pairs(files["GITHUB_ENV"]))
        self.path += self.lines(files["GITHUB_PATH"])
        return self.pairs(files["GITHUB_OUTPUT"])

    def lines(self, path):
        with open(self.machine.root + path, encoding="utf-8") as f:
            return f.read().splitlines()

    def pairs(self, path):
        lines = self.lines(path)
        if not all("=" in line for line in lines):
            raise Failed(f"not NAME=VALUE: {lines}")
        return dict(line.split("=", 1) for line in lines)

    def steps(self, steps, values_of, more, default_shell):
        """@return the outputs of the steps that have an id"""
        outputs = {}

        def values(name):
            match = re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", name)
            if match:
                return outputs[match.group(1)].get(match.group(2), "")
            return values_of(name)

        for step in steps:
            if set(step) - self.STEP:
                raise ValueError(f"a step has keys that are not known here: {set(step) - self.STEP}")
            outputs[step.get("id")] = {}
            if not evaluate(str(step.get("if", "'true'")), values):
                continue
            if "uses" in step:
                given = {name: self.expand(value, values) for name, value in step.get("with", {}).items()}
                result = self.actions[step["uses"]](self, given)
            else:
                shell = default_shell or {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}[step["shell"]]
                result = self.execute(step, values, more, shell, default_shell is None)
            outputs[step.get("id")] = result or {}
        return outputs

    def action(self, path, given):
        """Use a composite action whose files are at a path of the machine. @return its outputs"""
        with open(f"{self.machine.root}{path}/action.yml", encoding="utf-8") as f:
            action = yaml.safe_load(f)
        if action["runs"]["using"] != "composite" or set(given) - set(action["inputs"]):
            raise ValueError(f"not a composite action with inputs {list(given)}")
        inputs = {name: given.get(name, what["default"]) for name, what in action["inputs"].items()}

        def values(name):
            if not name.startswith("inputs."):
                raise ValueError(f"the context {name} is not known here")
            return inputs[name.removeprefix("inputs.")]

        done = self.steps(action["runs"]["steps"], values, {"GITHUB_ACTION_PATH": path}, None)
        result = {}
        for name, what in action["outputs"].items():
            step, output = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.([\w-]+) \}\}", what["value"]).groups()
            result[name] = done[step].get(output, "")
        return result

    def job(self, text, job):
        """Run a job of a workflow's text."""
        def values(name):
            raise ValueError(f"the context {name} is not known here")

        self.steps(yaml.safe_load(text)["jobs"][job]["steps"], values, {}, ["bash", "-e"])


class Gitlab:
    """A runner whose cache is a folder of the machine."""

    KEYS = {"extends", "image", "script", "variables", "cache", "before_script"}

    def __init__(self, machine, user):
        self.machine, self.user = machine, user
        self.work = machine.folder_of("/runner/gitlab", user)
        self.cache = machine.folder_of("/runner/gitlab-cache", user)

    def run(self, text, included, name, variables):
        """Run a job of a pipeline's text; `included` is the text of the file that it includes. @return output"""
        jobs = {**yaml.safe_load(included), **yaml.safe_load(text)}
        job = jobs[name]
        job = {**jobs[job["extends"]], **job} if "extends" in job else job
        if set(job) - self.KEYS:
            raise ValueError(f"a job has keys that are not known here: {set(job) - self.KEYS}")
        env = {"PATH": PATH, "HOME": "/root", "CI": "true", "CI_JOB_IMAGE": job["image"], "CI_JOB_NAME_SLUG": name,
               **job["variables"], **variables}
        project = self.machine.folder_of(f"{self.work}/project", self.user)
        key = re.sub(r"\$(\w+)", lambda match: env[match.group(1)], job["cache"]["key"])
        if "/" in key:
            raise ValueError(f"a key of GitLab's cache cannot contain /: {key}")
        kept = f"{self.cache}/{key}"
        lines = ["set -eo pipefail", *job["before_script"], *job["script"]]
        script = self.machine.file(f"{self.work}/script.sh", "\n".join(lines) + "\n")
        copies = " && ".join(f'mkdir -p "$2/$(dirname {path})" && if [ -e "$1/"{path} ]; then cp -a "$1/"{path} '
                             f'"$2/$(dirname {path})"; fi' for path in map(shlex.quote, job["cache"]["paths"]))
        for argv in (["sh", "-ec", copies, "sh", kept, project], ["bash", script],
                     ["sh", "-ec", copies, "sh", project, kept]):
            code, out = self.machine.run(argv, self.user, env, project)
            if code:
                raise Failed(f"exit code {code}: {out}")
            result = out if argv[0] == "bash" else ""
            self.log = result or getattr(self, "log", "")
        return self.log
