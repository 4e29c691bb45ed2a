from __future__ import annotations

import ast
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from reports import notebook
from reports.build import NOTEBOOKS
from reports.notebook import ReportError
from reports.pages import READS_RUNS

TEMPLATES = sorted(NOTEBOOKS.glob("*.ipynb"))
PARAMETERS = {"database": "x.duckdb", "scale": "smoke"}
ANY_STUDY = {"study": "section3"}  # what the notebook for any study takes beside these


@pytest.fixture
def template(tmp_path):
    """Writes a notebook with the reports' two parameters and these code cells."""

    def write(*cells: str, declared: str = 'database = ""\nscale = ""') -> Path:
        first = new_code_cell(declared, metadata={"tags": ["parameters"]})
        kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
        made = new_notebook(cells=[first, *map(new_code_cell, cells)], metadata=kernel)
        path = tmp_path / "made.ipynb"
        nbformat.write(made, path)
        return path

    return write


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_hold_no_outputs_and_no_logic(path):
    template = nbformat.read(path, as_version=4)
    nbformat.validate(template)
    assert template.metadata.kernelspec.name == "python3"
    code = [cell for cell in template.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    for cell in code:
        assert "parameters" in cell.metadata.get("tags", []) or len(ast.parse(cell.source).body) == 1, "it only calls"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_declare_and_read_the_parameters_that_the_build_passes(path):
    more = {"runs": "runs"} if path.stem in READS_RUNS else {}
    notebook.read_template(path, PARAMETERS | (ANY_STUDY if path.stem == "study" else more))


def test_a_parameter_that_the_notebook_does_not_declare_is_refused(template):
    with pytest.raises(ReportError, match=r"declares the parameters \['database', 'scale'\], but is given .*'size'"):
        notebook.read_template(template("print(database, scale)"), PARAMETERS | {"size": 1})


def test_a_parameter_that_is_never_read_is_refused(template):
    with pytest.raises(ReportError, match=r"declares \['scale'\] and never reads it"):
        notebook.read_template(template("print(database)"), PARAMETERS)


@pytest.mark.parametrize("line", ["!false", "%run other.py", "x = !ls"])
def test_shell_lines_and_magics_are_refused_because_their_errors_pass_unseen(template, line):
    """B65."""
    with pytest.raises(ReportError, match="cell 2 is not plain Python"):
        notebook.read_template(template("print(database, scale)", line), PARAMETERS)


def test_a_template_without_parameters_cell_is_refused(tmp_path):
    nbformat.write(new_notebook(cells=[new_code_cell("print(1)")]), tmp_path / "made.ipynb")
    with pytest.raises(ReportError, match="declares the parameters"):
        notebook.read_template(tmp_path / "made.ipynb", PARAMETERS)


def test_a_failing_cell_fails_the_report_and_keeps_what_ran(template, tmp_path):
    path = template("print(database, scale)", "boom = 1 / 0", "print('later')")
    kept = tmp_path / "kept" / "made.failed.ipynb"
    with pytest.raises(ReportError, match=r"'boom = 1 / 0' failed: ZeroDivisionError: .*failed\.ipynb"):
        notebook.execute(path, PARAMETERS, kept)
    assert kept.exists()
    assert "outputs" not in path.read_text(encoding="utf-8").replace('"outputs": []', "")


def test_a_cell_that_exits_early_fails_the_report(template, tmp_path):
    path = template("import sys\nprint(database, scale)", "sys.exit(0)", "print('never')")
    with pytest.raises(ReportError, match="never ran"):
        notebook.execute(path, PARAMETERS, tmp_path / "kept.ipynb")


def test_a_cell_that_hangs_is_stopped(template, tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "CELL_TIMEOUT_SECONDS", 1)
    path = template("import time\nprint(database, scale)\ntime.sleep(60)")
    with pytest.raises(ReportError, match="more than 1 s"):
        notebook.execute(path, PARAMETERS, tmp_path / "k.ipynb")


def test_a_kernel_that_dies_is_started_once_more_and_that_is_said(template, tmp_path):
    """B67."""
    # The first kernel leaves a mark before it dies; the second finds the mark and lives.
    cell = (
        "import os, pathlib\nmark = pathlib.Path(database)\nprint(scale)\n"
        "if not mark.exists():\n    mark.touch()\n    os._exit(1)\n"
    )
    said: list[str] = []
    parameters = PARAMETERS | {"database": str(tmp_path / "mark")}
    executed = notebook.execute(template(cell), parameters, tmp_path / "k.ipynb", on_progress=said.append)
    assert len(said) == 1
    assert "starting another" in said[0]
    assert "smoke" in notebook.to_html(executed)


@pytest.mark.slow
def test_twenty_notebooks_side_by_side_all_end_well_or_say_that_a_kernel_was_started_again(template, tmp_path):
    """B67: kernels that start at once now and then choose the same port."""
    path, said = template("print(database, scale)"), []

    def render(number: int) -> str:
        parameters = PARAMETERS | {"database": f"number {number}"}
        return notebook.to_html(notebook.execute(path, parameters, tmp_path / f"{number}.ipynb", said.append))

    with ThreadPoolExecutor(max_workers=20) as pool:
        pages = list(pool.map(render, range(20)))
    assert all(f"number {number} smoke" in page for number, page in enumerate(pages))
    assert all("starting another" in line for line in said)


def test_kernels_are_ended_at_once_from_another_thread(template, tmp_path):
    """As on Ctrl-C: the thread that waits for a long cell is told that its kernel is gone, and starts no other."""
    kernels, began = notebook.Kernels(), tmp_path / "began"
    path = template("import pathlib, time\nprint(scale)\npathlib.Path(database).touch()\ntime.sleep(60)")
    with ThreadPoolExecutor(max_workers=1) as pool:
        parameters = PARAMETERS | {"database": str(began)}
        running = pool.submit(notebook.execute, path, parameters, tmp_path / "k.ipynb", None, kernels)
        while not began.exists():
            time.sleep(0.05)
        ended = time.monotonic()
        kernels.end()
        with pytest.raises(ReportError, match="its kernel was ended"):
            running.result(timeout=30)
    assert time.monotonic() - ended < 15


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "python"), FileNotFoundError(2, "none")])
def test_a_kernel_that_cannot_be_started_is_said_to_be_that(template, tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("papermill.execute_notebook", refuse)
    with pytest.raises(ReportError, match=r"its kernel cannot be started .*; see what aiayn doctor finds"):
        notebook.execute(template("print(database, scale)"), PARAMETERS, tmp_path / "k.ipynb")


def test_values_of_parameters_arrive_unchanged(template, tmp_path):
    awkward = "quo'te {brace} \\ back é\n$x" + '"double"'
    path = template("assert database == " + repr(awkward) + "\nscale")
    notebook.execute(path, {"database": awkward, "scale": "smoke"}, tmp_path / "k.ipynb")
