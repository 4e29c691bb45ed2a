# Two commands: `make reproduce` and `make test`. Both set up .venv on first use and do nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOME_DIR ?= workspace
# pip's constraints: the versions that the tests ran with. Packages that a platform adds are left to pip.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: reproduce test clean

reproduce: $(VENV)/.installed
	$(BIN)/aiayn reproduce --home $(HOME_DIR)

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP_INSTALL) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
