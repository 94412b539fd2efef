# SPDX-License-Identifier: BSD-3-Clause
"""Reads the Containerfile: its stages, and the configuration of the image that each would give. Tests carry out the
steps themselves, as they reach no registry with base images."""
import os
import re
import shlex

import harness

PATH = os.path.join(harness.ROOT, "Containerfile")
KNOWN = ("ARG", "FROM", "COPY", "RUN", "ENV", "USER", "CMD")


class Stage:
    def __init__(self, base, name):
        self.base, self.name, self.steps, self.arguments = base, name, [], {}
        self.environment, self.user, self.command = {}, "", []

    def changes(self):
        """@return what podman import has to be told for the image to be configured as the stage says."""
        out = [f"ENV {name}={value}" for name, value in self.environment.items()]
        return out + [f"USER {self.user}", "CMD " + str(self.command).replace("'", '"')]


def own():
    """The text of the Containerfile."""
    with open(PATH, encoding="utf-8") as f:
        return f.read()


def instructions(text):
    """Each instruction and its text: without comments, lines joined."""
    text = "".join(line for line in text.splitlines(True) if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            name, rest = line.split(None, 1)
            if name not in KNOWN:
                raise ValueError(f"the test does not know the instruction {name}")
            yield name, rest.strip()


def stages(arguments, text=None):
    """The stages in their order, with these build arguments. Steps are (COPY, from, sources, target) and (RUN, command,
    build arguments)."""
    found, common = [], {}
    left = set(arguments)

    def expand(text, variables):
        return re.sub(r"\$\{(\w+)\}", lambda match: variables[match.group(1)], text)

    for name, rest in instructions(text or own()):
        stage = found[-1] if found else None
        if name == "ARG":
            key, _, default = rest.partition("=")
            (stage.arguments if stage else common)[key] = arguments.get(key, default)
            left.discard(key)
        elif name == "FROM":
            base, _, alias = expand(rest, common).partition(" AS ")
            found.append(Stage(base, alias))
        elif name == "COPY":
            words = rest.split()
            origin = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
            stage.steps.append(("COPY", origin, words[:-1], words[-1]))
        elif name == "RUN":
            stage.steps.append(("RUN", rest, dict(stage.arguments)))
        elif name == "ENV":
            stage.environment.update(word.split("=", 1) for word in shlex.split(rest))
        elif name == "USER":
            stage.user = rest
        else:
            stage.command = [word.strip(' "') for word in rest.strip("[]").split(",")]
    if left:
        raise ValueError(f"the Containerfile has no build argument {left}")
    return found
