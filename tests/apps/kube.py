# SPDX-License-Identifier: BSD-3-Clause
"""A cluster as far as the manifests of deploy/kubernetes need one: jobs become pods, which `podman kube play` starts;
services without an address become names of pods; a secret's keys become files. With a kubectl of these few commands:

    apply -f FILE|-      wait --for=... job/NAME|pod/NAME      logs job/NAME      delete -f FILE|-
    create secret generic NAME --from-file=PATH...
"""
import copy
import os
import re
import sys
import time

import harness

try:
    import yaml
except ImportError:
    harness.skip("Python's yaml is not installed; scripts/packages install containers")

NETWORK = "cluster"
SUBNET = "10.98.1"


class Cluster:
    """`ask` runs podman and returns what it printed; `folder` keeps the state: the secrets, and what has started."""

    def __init__(self, ask, folder):
        self.ask, self.folder = ask, folder
        self.state_path = os.path.join(folder, "state.yaml")
        self.state = {"secrets": {}, "pods": {}, "next": 10}
        if os.path.exists(self.state_path):
            with open(self.state_path, encoding="utf-8") as f:
                self.state = yaml.safe_load(f)
        else:
            ask("network", "create", "--disable-dns", "--subnet", f"{SUBNET}.0/24", NETWORK)
            self.save()

    def save(self):
        with open(self.state_path, "w", encoding="utf-8") as f:
            yaml.safe_dump(self.state, f)

    def pods_of(self, document):
        """The pods that a Pod or a Job has."""
        name = document["metadata"]["name"]
        if document["kind"] == "Pod":
            return {name: copy.deepcopy(document["spec"])}
        spec = document["spec"]
        if spec["completionMode"] != "Indexed" or spec["completions"] != spec["parallelism"]:
            raise ValueError("a job here has all its pods at once, with indexes")
        pods = {}
        for index in range(spec["completions"]):
            pod = copy.deepcopy(spec["template"]["spec"])
            for container in pod["containers"]:
                container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
            pod["hostname"] = f"{name}-{index}"
            pods[f"{name}-{index}"] = pod
        return pods

    def apply(self, text):
        documents = list(yaml.safe_load_all(text))
        services = [d["metadata"]["name"] for d in documents if d["kind"] == "Service"]
        for document in documents:
            if document["kind"] == "Service":
                if document["spec"]["clusterIP"] != "None":
                    raise ValueError("a service here has no address")
                continue
            self.start(document, services)

    def start(self, document, services):
        pods = self.pods_of(document)
        addresses = {}
        for name in pods:
            self.state["next"] += 1
            addresses[name] = f"{SUBNET}.{self.state['next']}"
        for name, pod in pods.items():
            domain = pod.pop("subdomain", None)
            if domain in services:
                pod["hostAliases"] = [{"ip": address, "hostnames": [f"{other}.{domain}"]}
                                      for other, address in addresses.items()]
            extra = self.files_of_secrets(pod)
            play = [*extra, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}]
            path = os.path.join(self.folder, f"{name}.yaml")
            with open(path, "w", encoding="utf-8") as f:
                yaml.safe_dump_all(play, f)
            self.ask("kube", "play", "--network", NETWORK, "--ip", addresses[name], path)
            self.state["pods"][name] = [f"{name}-{container['name']}" for container in pod["containers"]]
        self.save()

    def files_of_secrets(self, pod):
        """podman 4.3 has no volumes of secrets; those of configuration maps have files as well."""
        maps = []
        for volume in pod.get("volumes", []):
            secret = volume.pop("secret", None)
            if secret:
                name = secret["secretName"]
                volume["configMap"] = {"name": name}
                maps.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                             "data": self.state["secrets"][name]})
        return maps

    def containers(self, what):
        """The containers of job/NAME or pod/NAME, in the order of their pods."""
        kind, name = what.split("/")
        wanted = re.compile(re.escape(name) + (r"-\d+" if kind == "job" else ""))
        return [c for pod, names in sorted(self.state["pods"].items()) if wanted.fullmatch(pod) for c in names]

    def wait(self, what, seconds):
        """@return {container: exit code}; a container that goes on has none."""
        codes, end = {}, time.monotonic() + seconds
        for name in self.containers(what):
            code = None
            while code is None and time.monotonic() < end:
                status = self.ask("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", name).split()
                code = int(status[1]) if status[0] == "exited" else time.sleep(0.2)
            codes[name] = code
        return codes

    def logs(self, what):
        return "\n".join(self.ask("logs", name) for name in self.containers(what))

    def delete(self, text):
        for document in yaml.safe_load_all(text):
            if document["kind"] in ("Pod", "Job"):
                for name in self.pods_of(document):
                    self.ask("pod", "rm", "--force", "--time", "0", name)
                    del self.state["pods"][name]
        self.save()

    def secret(self, name, paths):
        files = {}
        for path in paths:
            with open(path, encoding="utf-8") as f:
                files[os.path.basename(path)] = f.read()
        self.state["secrets"][name] = files
        self.save()


def kubectl(cluster, argv):
    """@return the exit code"""
    words = [word for word in argv if not word.startswith("--")]
    options = dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "from-file" not in word)
    if words[:1] in (["apply"], ["delete"]) and words[1] == "-f" and len(words) == 3:
        with (sys.stdin if words[2] == "-" else open(words[2], encoding="utf-8")) as f:
            getattr(cluster, words[0])(f.read())
    elif words[:3] == ["create", "secret", "generic"]:
        cluster.secret(words[3], [w.split("=", 1)[1] for w in argv if w.startswith("--from-file=")])
    elif words[0] == "wait":
        codes = cluster.wait(words[1], int(options.get("timeout", "30s").rstrip("s")))
        print(codes)
        return 0 if codes and all(code == 0 for code in codes.values()) else 1
    elif words[0] == "logs":
        print(cluster.logs(words[1]))
    else:
        raise ValueError(f"kubectl {' '.join(argv)}: not known here")
    return 0
