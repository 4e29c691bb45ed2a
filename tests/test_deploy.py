"""The files to deploy with: the form that their readers demand, and that they say what the project says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

from aiayn import app
from studies.scheduling.ray_session import _FORWARDED

jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
IMAGE = "REGISTRY/aiayn:0.1.0"


def options_of(command: str) -> set[str]:
    """The options that a command of the tool takes."""
    import typer

    found = typer.main.get_command(app).commands[command]
    return {option for parameter in found.params for option in parameter.opts}


def commands_in(text: str) -> list[list[str]]:
    """Every `aiayn VERB ...` of a text, as words."""
    return [match.split() for match in re.findall(r"\baiayn ((?:run|reproduce|submit|plan|status|query|data)\b[^`'\"\n]*)", text)]  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("file", sorted(path.name for path in DEPLOY.iterdir()))
def test_every_command_that_is_shown_exists(file: str) -> None:
    for verb, *words in commands_in((DEPLOY / file).read_text(encoding="utf-8")):
        if verb == "data":
            continue
        unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - options_of(verb)
        assert not unknown, f"{file}: aiayn {verb} {words}"


def test_cloud_cluster_is_what_rays_launcher_reads() -> None:
    schema = json.loads(resources.files("ray").joinpath("autoscaler/ray-schema.json").read_text())
    cluster = yaml.safe_load((DEPLOY / "cloud.yaml").read_text())
    jsonschema.validate(cluster, schema)
    types = cluster["available_node_types"]
    assert cluster["head_node_type"] in types
    assert cluster["docker"]["image"] == IMAGE
    gpu = types["gpu"]
    assert gpu["resources"]["GPU"] == 8
    assert gpu["max_workers"] == cluster["max_workers"]
    # The schema lets any text through where a list of commands is meant.
    for name in ("initialization_commands", "head_start_ray_commands", "worker_start_ray_commands"):
        for command in cluster[name]:
            subprocess.run(["bash", "-n", "-c", command], check=True)


def test_kuberay_manifest_is_a_job_with_one_cluster() -> None:
    claim, job = yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text())
    assert (claim["kind"], claim["spec"]["accessModes"]) == ("PersistentVolumeClaim", ["ReadWriteMany"])
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert cluster["rayVersion"] == pinned
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())  # Kubernetes wants texts
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert container["image"] == IMAGE
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
        assert volumes["home"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert all(isinstance(value, str) for value in container["resources"]["limits"].values())
    workers = cluster["workerGroupSpecs"][0]
    assert workers["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    mounted = {mount["mountPath"] for mount in groups[0]["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert any(f"--home {path}/" in job["spec"]["entrypoint"] for path in mounted)


def test_slurm_script_is_bash_and_refuses_to_run_nothing() -> None:
    script = DEPLOY / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    refused = subprocess.run(["bash", script], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("give the command: sbatch")
    lines = script.read_text().splitlines()
    directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH")]
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert directives
    assert max(directives) < first_command  # Slurm stops reading them there


def slurm(folder: Path, status: int, nodes: str = "n1 n2") -> subprocess.CompletedProcess[str]:
    """Run the script with stand-ins for Slurm, Ray and the tool, which write down how they were called."""
    binaries = folder / "venv/bin"
    binaries.mkdir(parents=True)
    (binaries / "activate").write_text(f"PATH={binaries}:$PATH\n")
    calls = folder / "calls"
    for name, body in {
        "scontrol": f"printf '%s\\n' {nodes}",
        # Options of its own come first; what follows is run.
        "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
        "hostname": "echo 10.0.0.1 10.0.0.2",
        "ray": "[[ $1 == status ]] || exec sleep 60",
        "python": "cat > /dev/null; sleep 1",  # so long do nodes take to join
        "aiayn": f"exit {status}",
    }.items():
        file = binaries / name
        file.write_text(f'#!/bin/bash\necho "{name} $*" >> {calls}\n{body}\n')
        file.chmod(0o755)
    environment = {
        "PATH": f"{binaries}:/usr/bin:/bin",
        "AIAYN_VENV": str(folder / "venv"),
        "SLURM_JOB_ID": "4242",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_CPUS_PER_TASK": "64",
        "SLURM_GPUS_ON_NODE": "8",
        "TMPDIR": str(folder),
    }
    command = ["bash", DEPLOY / "slurm.sh", "run", "table3", "--home", "/shared"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("status", [0, 1])
def test_slurm_script_starts_ray_on_every_node_and_ends_as_the_command_does(status: int, tmp_path: Path) -> None:
    ended = slurm(tmp_path, status)
    assert ended.returncode == status, ended.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    started = [call for call in calls if call.startswith("ray start")]
    assert len(started) == 2
    assert all("--num-gpus=8" in call and "--num-cpus=64" in call and "--block" in call for call in started)
    assert sum("--head" in call for call in started) == 1
    port = re.search(r"--port=(\d+)", next(call for call in started if "--head" in call))[1]
    assert f"--address=10.0.0.1:{port}" in next(call for call in started if "--head" not in call)
    (command,) = [call for call in calls if call.startswith("aiayn")]
    assert command == f"aiayn run table3 --home /shared --address 10.0.0.1:{port}"
    assert not list(tmp_path.glob("ray-*"))  # Ray's files went with it


def test_container_has_all_that_the_package_is_made_of() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = set(re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE))
    files = {name for line in copied for name in line.split()}
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert files >= packages | {"aiayn.py", "pyproject.toml", "constraints.txt", project["project"]["readme"]}
    assert all((ROOT / name).exists() for name in files)
    assert f":{project['project']['version']} ." in text
    assert "cluster" in project["project"]["optional-dependencies"]
    minimum = project["project"]["requires-python"].removeprefix(">=")
    assert re.search(r"^FROM \S*python:(\S+)-slim", text, re.MULTILINE)[1] == minimum


def test_the_page_names_every_setting_that_is_forwarded() -> None:
    page = (DEPLOY / "README.md").read_text()
    assert [name for name in _FORWARDED if name not in page] == []
    for name in re.findall(r"`([\w-]+\.(?:yaml|sh))`|`(Containerfile)`", page):
        assert (DEPLOY / "".join(name)).exists()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_slurm_script_passes_shellcheck() -> None:
    subprocess.run(["shellcheck", DEPLOY / "slurm.sh"], check=True)


def test_ray_that_is_pinned_is_the_one_here() -> None:
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert metadata.version("ray") == pinned
