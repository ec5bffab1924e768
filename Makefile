# Two commands do everything: `make demo` and `make test`. Both set up .venv on first use.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test slow lint types layers bench docs docs-tables clean

demo: .venv/ready
	$(BIN)/sigmax demo

test: .venv/ready lint types layers
	$(BIN)/pytest -n 2 -m "not slow"

slow: .venv/ready
	$(BIN)/pytest -n 2 -m slow

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

layers: .venv/ready
	$(BIN)/lint-imports --no-cache

bench: .venv/ready
	$(BIN)/python benchmarks/certify.py

# The reference of the TOML files, from the models that read them; a test fails where it is out of date.
docs-tables: .venv/ready
	$(BIN)/python docs/pictures/configuration.py

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
