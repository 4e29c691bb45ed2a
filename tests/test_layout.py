"""The shape of the whole: which folder may import which, what the command line starts without, and no dead ends."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("core", "studies", "results", "reports")
MAY_IMPORT = {
    "aiayn": {"core", "studies", "results", "reports"},
    "studies": {"core", "results"},
    "reports": {"results"},
    "core": set(),
    "results": set(),
}


def _modules() -> list[Path]:
    return [ROOT / "aiayn.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]


def _imported(path: Path) -> list[tuple[int, str]]:
    """(line, top-level package) of every import in a file, also those inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            found.append((node.lineno, node.module.split(".")[0]))
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    owner = path.relative_to(ROOT).parts[0].removesuffix(".py")
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {package}"
        for line, package in _imported(path)
        if package in (*FOLDERS, "aiayn") and package != owner and package not in MAY_IMPORT[owner]
    ]
    assert not wrong


@pytest.mark.parametrize("folder", ["results", "reports"])
def test_results_and_reports_know_no_torch(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        assert not {package for _, package in _imported(path)} & {"torch", "ray"}, path


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list"],
        ["list", "table3"],
        ["list", "--claims"],
        ["plan", "table3"],
        ["claims"],
        ["query", "SELECT 1"],
    ],
    ids=" ".join,
)
def test_light_commands_start_without_the_heavy_libraries(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import sys, json, aiayn\n"
        "sys.argv = ['aiayn', *json.loads(sys.argv[1])]\n"
        "try:\n    aiayn.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'ray', 'seaborn', 'matplotlib', 'papermill'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    if arguments != ["--help"] and arguments[0] not in ("list",):
        arguments = [*arguments, "--home", str(tmp_path)]
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stderr
