"""Print constraints for pip: the oldest versions that pyproject.toml admits of what the package and its extras use."""

import re
import tomllib
from pathlib import Path

_DEVELOPMENT = ("bench", "peers", "docs", "test")  # extras whose tools may be of any age


def constraints(project: dict) -> dict[str, str]:
    """The oldest version of each package, by name."""
    extras = project["optional-dependencies"].items()
    requirements = [
        *project["dependencies"],
        *(each for name, all in extras if not name.startswith(_DEVELOPMENT) for each in all),
    ]
    return dict(re.findall(r"^([\w-]+)(?:\[\w+\])?>=([\w.]+)", "\n".join(requirements), re.M))


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for name, version in constraints(tomllib.loads(text)["project"]).items():
        print(f"{name}=={version}")
