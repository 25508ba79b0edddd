"""What a release says of itself is the same everywhere, and the workflows ask for no more than they need."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def workflow(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))


def steps(path):
    return [step for job in workflow(path.name)["jobs"].values() for step in job["steps"]]


def test_the_citation_names_the_version_of_the_package_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    names = [author["family-names"] for author in citation["references"][0]["authors"]]
    assert names == ["Xu", "Bu", "Chaudhari", "Barnett"]


def test_every_python_that_the_package_names_is_tested_on_every_system():
    named = [found[1] for entry in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", entry))]
    matrix = workflow("test.yml")["jobs"]["library"]["strategy"]["matrix"]
    assert matrix["python"] == named
    assert {system.split("-")[0] for system in matrix["system"]} == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_only_unless_a_job_says_otherwise(path):
    assert workflow(path.name)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_the_hash_of_a_commit(path):
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert [name for name in used if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_make_targets_of_a_workflow_are_there(path):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    called = {found[1] for step in steps(path) if (found := re.match(r"make ([a-z-]+)", step.get("run", "")))}
    assert [target for target in called if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_only_the_job_that_publishes_may_ask_for_an_identity():
    jobs = {name: job for path in WORKFLOWS for name, job in workflow(path.name)["jobs"].items()}
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"}
    }
    assert [step for step in jobs["publish"]["steps"] if "run" in step] == []  # nothing of ours runs with it


def test_the_core_tests_are_there():
    names = (ROOT / "tools" / "core_tests.txt").read_text("utf-8").split()
    assert [name for name in names if not (ROOT / name).exists()] == []


def pins(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    found = dict(line.rstrip(" \\").split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found.items()}


def needed(extra):
    """Return what is installed because the package needs it with an extra, at any depth, torch's needs aside."""
    seen, queue = set(), [("sparsenam", frozenset({extra}))]
    while queue:
        name, extras = queue.pop()
        for requirement in map(Requirement, requires(name) or ()):
            entry = (canonicalize_name(requirement.name), frozenset(requirement.extras))
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": each}) for each in extras | {""}):
                queue += [entry] if entry not in seen and entry[0] != "torch" else []
                seen.add(entry)
    return {name for name, _ in seen} - {"sparsenam", "torch"}


@pytest.mark.parametrize(("name", "extra"), [("runtime", "cli"), ("dev", "dev")])
def test_every_package_that_the_tests_install_has_its_pin_and_its_hashes(name, extra):
    text = (ROOT / "locked" / f"{name}.txt").read_text("utf-8")
    entries = re.findall(r"^\S+==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry)] == []
    locked, pinned = pins(f"locked/{name}.txt"), pins("constraints.txt")
    assert {package: version for package, version in locked.items() if pinned.get(package) != version} == {}
    assert needed(extra) - set(locked) == set(), "make lock writes them"
