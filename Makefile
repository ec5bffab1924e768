# Two commands do everything: `make demo` and `make test`. Both set up .venv on first use.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types bench docs clean

demo: .venv/ready
	$(BIN)/sigmax demo

test: .venv/ready lint types
	$(BIN)/pytest -n 2

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python benchmarks/certify.py

docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

# Installed anew only when the requirements change.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test]'
	touch $@

clean:
	rm -rf .venv site sigmax-demo .mypy_cache .ruff_cache .pytest_cache
