# `make run` sets everything up and does the main job; `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup test lint

setup: $(BIN)/mmulab-is-installed

$(BIN)/mmulab-is-installed: pyproject.toml Cargo.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'maturin>=1.14,<2'
	$(BIN)/maturin develop --release --extras test
	touch $@

test: setup
	cargo test --release --workspace --exclude mmulab-python

lint:
	cargo fmt --check
	cargo clippy --release --workspace --all-targets -- -D warnings
