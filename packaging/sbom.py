"""A hook of the build: the wheel names its parts in a CycloneDX document, in the folder that PEP 770 reserves for it.

The wheel contains nothing from elsewhere. What it needs at run time is listed as external, with the versions that
pyproject.toml admits; what extras add is optional. The document depends on the sources alone, so that it is
reproducible.
"""

import json
import os
import runpy
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_OLDEST = Path(__file__).with_name("oldest.py")


def document(name: str, version: str, project: dict[str, Any]) -> dict[str, Any]:
    """Return the CycloneDX document of the package, from the table [project] of pyproject.toml."""
    oldest = runpy.run_path(str(_OLDEST))["constraints"]
    required = oldest({**project, "optional-dependencies": {}})
    itself = f"pkg:pypi/{name}@{version}"
    components = {
        f"pkg:pypi/{other.lower()}": {
            "type": "library",
            "bom-ref": f"pkg:pypi/{other.lower()}",
            "name": other,
            "purl": f"pkg:pypi/{other.lower()}",
            "scope": "required" if other in required else "optional",
            "isExternal": True,
            "versionRange": f"vers:pypi/>={least}",
        }
        for other, least in sorted(oldest(project).items())
    }
    metadata: dict[str, Any] = {
        "component": {
            "type": "library",
            "bom-ref": itself,
            "name": name,
            "version": version,
            "purl": itself,
            "licenses": [{"license": {"id": project["license"]}}],
        }
    }
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds:
        metadata["timestamp"] = datetime.fromtimestamp(int(seconds), UTC).isoformat()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": metadata,
        "components": list(components.values()),
        "dependencies": [{"ref": itself, "dependsOn": list(components)}],
    }


class SbomHook(BuildHookInterface):
    """Writes the document before a wheel is built, and removes it afterwards."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        metadata = self.metadata
        text = json.dumps(
            document(metadata.name, metadata.version, metadata.config["project"]), indent=1
        )
        self._folder = tempfile.mkdtemp()
        path = Path(self._folder) / f"{metadata.name}.cdx.json"
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder)
