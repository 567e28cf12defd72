"""The workflows: each action is fixed by its commit, and each job may do no more than it needs to."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def _jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_fixed_by_their_commit(path):
    used = re.findall(r"^ *- uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
    steps = [step for job in _jobs(path).values() for step in job["steps"] if "uses" in step]
    assert len(steps) == len(used)


def test_an_action_has_the_same_commit_everywhere():
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    commits = {}
    for owner, commit in re.findall(r"uses: ([\w-]+/[\w-]+)[\w/-]*@(\w+)", text):
        commits.setdefault(owner, set()).add(commit)
    assert all(len(found) == 1 for found in commits.values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_and_store_no_credentials(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text(encoding="utf-8")
    for job in content["jobs"].values():
        writes = {name for name, what in job.get("permissions", {}).items() if what == "write"}
        assert writes <= {"security-events", "id-token", "attestations"}
        for step in job["steps"]:
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
            # Names that others choose, of branches for example, must not become commands.
            assert "${{" not in step.get("run", "")


def test_only_the_last_job_of_a_release_has_an_identity_and_it_waits_for_approval():
    jobs = _jobs(ROOT / ".github" / "workflows" / "release.yml")
    *others, (name, publish) = jobs.items()
    assert name == "publish"
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {"id-token": "write", "attestations": "write"}
    assert all("write" not in job.get("permissions", {}).values() for _, job in others)
    assert not any("run" in step for step in publish["steps"])  # it only publishes what was built
    assert publish["needs"] == "compare"
    assert jobs["compare"]["needs"] == "build"


def test_the_tools_of_a_release_are_fixed_by_their_digests():
    lines = (ROOT / "packaging" / "build.txt").read_text(encoding="utf-8").splitlines()
    tools = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", tool) for tool in tools)
    assert {"build", "hatchling"} <= {tool.partition("==")[0] for tool in tools}
