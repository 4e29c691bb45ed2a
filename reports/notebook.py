"""Running one notebook with papermill, and turning its outputs into HTML.

A report that fails must fail loudly: parameters are compared with what the notebook declares and reads, shell lines and
magics are refused because their errors pass unseen, and every code cell must have run, because a kernel that is told to
exit ends the run as if it were complete.
"""

from __future__ import annotations

import ast
import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL_TIMEOUT_SECONDS = 300
KERNEL_START_TIMEOUT_SECONDS = 120
KERNEL_LOG = "kernel.log"


class ReportError(Exception):
    """A report could not be made; the message is one line for a person."""


class Kernels:
    """The kernels that run, whichever threads started them, so that all can be ended at once."""

    def __init__(self) -> None:
        self.ended = False
        self._processes: set[int] = set()
        self._lock = threading.Lock()

    def add(self, process: int) -> None:
        """Know of one more kernel; it ends at once where all others were ended."""
        with self._lock:
            self._processes.add(process)
            if self.ended:
                _kill(process)

    def remove(self, process: int) -> None:
        """Forget a kernel that has ended: its number may pass to another process."""
        with self._lock:
            self._processes.discard(process)

    def end(self) -> None:
        """End all kernels, and those that start from now on."""
        with self._lock:
            self.ended = True
            for process in self._processes:
                _kill(process)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def execute(
    path: Path,
    parameters: Mapping[str, Any],
    failed_copy: Path,
    on_progress: Callable[[str], None] | None = None,
    kernels: Kernels | None = None,
) -> NotebookNode:
    """Run the notebook `path` with `parameters` in a fresh kernel and return it with its outputs.

    The template is only read. Where a cell fails, the half-run notebook is kept at `failed_copy` to look into.
    `kernels` is told of the kernel, so that another thread can end it.

    Raises:
        ReportError: the template is unfit, a cell failed or ran too long, or the kernel died.
    """
    notebook = read_template(path, parameters)
    with tempfile.TemporaryDirectory(prefix="aiayn-report-") as scratch:
        running = Path(scratch) / "running.ipynb"
        try:
            executed = _run(notebook, parameters, running, Path(scratch), on_progress, kernels or Kernels())
        except ReportError as error:
            if not running.exists() or (kernels is not None and kernels.ended):
                raise
            failed_copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(running, failed_copy)
            raise ReportError(f"{path.name}: {error}; what ran is in {failed_copy}") from error.__cause__
    unrun = [i for i, cell in enumerate(executed.cells) if cell.cell_type == "code" and not cell.execution_count]
    if unrun:
        raise ReportError(f"{path.name}: {len(unrun)} cell(s) never ran; something ended the kernel early")
    return executed


def read_template(path: Path, parameters: Mapping[str, Any]) -> NotebookNode:
    """The notebook at `path`, checked to be a template that these parameters fit.

    Raises:
        ReportError: a name is passed that the notebook does not declare, declared but not passed, or declared and never
            read; there is not exactly one `parameters` cell; or a cell is more than plain Python.
    """
    import nbformat
    import papermill

    declared = set(papermill.inspect_notebook(str(path)))
    if declared != set(parameters):
        raise ReportError(f"{path.name} declares the parameters {sorted(declared)}, but is given {sorted(parameters)}")
    notebook = nbformat.read(path, as_version=4)
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise ReportError(f"{path.name} has {len(tagged)} cells tagged 'parameters'; it needs exactly one")
    names_read: set[str] = set()
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError as error:
            problem = f"is not plain Python (no shell lines, no magics): {error.msg}"
            raise ReportError(f"{path.name}: cell {i} {problem}") from error
        if cell is not tagged[0]:
            names_read |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if unread := declared - names_read:
        raise ReportError(f"{path.name} declares {sorted(unread)} and never reads it")
    return notebook


def to_html(notebook: NotebookNode) -> str:
    """The notebook's text and outputs as HTML for the inside of a page; its code is left out."""
    from nbconvert import HTMLExporter

    # `basic` is bare markup: unlike the full templates it links to nothing on the network.
    exporter = HTMLExporter(
        template_name="basic", exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True
    )
    body, _ = exporter.from_notebook_node(notebook)
    return body


def _run(
    notebook: NotebookNode,
    parameters: Mapping[str, Any],
    running: Path,
    scratch: Path,
    on_progress: Callable[[str], None] | None,
    kernels: Kernels,
) -> NotebookNode:
    """Execute, saving to `running` after each cell; a kernel that dies gets one more try."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from zmq import ZMQError

    # What goes wrong is raised too, and told in a line of our own.
    logging.getLogger("traitlets").setLevel(logging.CRITICAL + 1)
    logging.getLogger("papermill").setLevel(logging.CRITICAL + 1)
    # Kernels that start side by side now and then choose the same port (papermill issue 511), and one of them dies.
    for attempts_left in (1, 0):
        try:
            return papermill.execute_notebook(
                notebook,
                running,
                parameters=dict(parameters),
                kernel_name="python3",
                language="python",
                kernel_manager_class=_kernel_manager(scratch, kernels),
                start_timeout=KERNEL_START_TIMEOUT_SECONDS,
                execution_timeout=CELL_TIMEOUT_SECONDS,
                progress_bar=False,
            )
        except papermill.PapermillExecutionError as error:
            problem = f"{error.ename}: {_first_line(error.evalue)}"
            raise ReportError(f"{_first_line(error.source)!r} failed: {problem}") from error
        except CellTimeoutError as error:
            raise ReportError(f"a cell ran for more than {CELL_TIMEOUT_SECONDS} s and was stopped") from error
        except (PermissionError, FileNotFoundError) as error:
            raise ReportError(f"its kernel cannot be started ({error}); see what aiayn doctor finds") from error
        except (DeadKernelError, ZMQError, RuntimeError) as error:
            if kernels.ended:
                raise ReportError("its kernel was ended") from error
            why = _last_words(scratch) or _first_line(str(error))
            if not attempts_left:
                raise ReportError(f"its kernel died twice ({why})") from error
            if on_progress:
                on_progress(f"the kernel died ({why}); starting another")
    raise AssertionError("unreachable: the last attempt returns or raises")


def _kernel_manager(scratch: Path, kernels: Kernels) -> type:
    from jupyter_client.manager import AsyncKernelManager

    paths = [str(Path(__file__).parent.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "IPYTHONDIR": str(scratch / "ipython")}

    class ReportKernelManager(AsyncKernelManager):
        """A kernel with this very `reports` package and without a person's IPython start-up files and history.

        It talks over encrypted sockets: others on the host cannot listen, and ipykernel does not warn. What it writes
        past the notebook, such as that it was interrupted, goes to a file and not to the person's terminal.
        """

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**{"transport_encryption": "required"} | kwargs)
            self._process = 0

        async def start_kernel(self, **kwargs: Any) -> None:
            with (scratch / KERNEL_LOG).open("ab") as log:
                await super().start_kernel(**{"env": environment, "stdout": log, "stderr": log} | kwargs)
            self._process = self.provisioner.pid
            kernels.add(self._process)

        async def _async_cleanup_resources(self, restart: bool = False) -> None:
            kernels.remove(self._process)
            await super()._async_cleanup_resources(restart)

    return ReportKernelManager


def _last_words(scratch: Path) -> str:
    """The last line that the kernels wrote past the notebook, such as why one could not start; empty if none."""
    log = scratch / KERNEL_LOG
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
