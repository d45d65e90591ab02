# Two commands: `make demo` builds a lab, loads it and ends with a report; `make test` is the gate that CI calls.
# Everything is set up inside the checkout: .venv (Python), target (Rust).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates -name "*.rs" -o -name Cargo.toml) Cargo.toml Cargo.lock tools/wheel/scripts/hakaru

.PHONY: demo test setup lint test-rust test-python test-guests bench crash storms fuzz schema figure clean

demo: setup
	$(BIN)/hakaru run vm-sweep --quick

test: setup lint test-rust test-python

setup: $(VENV)/.engine

# System packages: installed where that is allowed, else named; the Python environment with every dependency.
$(VENV)/.ready: pyproject.toml tools/system-packages
	tools/system-packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip 'maturin>=1.9,<2'
	touch $@

# `hakaru` (editable) and a release build of `hakaru-engine`, both in the virtual environment.
$(VENV)/.engine: $(VENV)/.ready $(RUST_SOURCES)
	. $(BIN)/activate && PIP_QUIET=1 maturin develop --release --quiet --extras dev
	touch $@

lint: setup
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-rust: setup
	cargo test --workspace --quiet

# What only computes runs on every core; what loads sockets, labs and arrays runs alone, since it measures.
COMPUTING := tests/analysis tests/report tests/store tests/study

test-python: setup
	$(BIN)/pytest -q -n auto --dist loadfile $(COMPUTING)
	$(BIN)/pytest -q $(addprefix --ignore=,tests/guests $(COMPUTING))

# A stock Debian guest against the array: minutes where its processor is emulated. Brings 100 MB of packages once.
test-guests: setup
	$(BIN)/pytest -q tests/guests

# Ratios against peers in one run; the table on stdout, everything in results/bench.json.
# BASELINE=DIR: a checkout of an earlier commit, built in release, is a peer of the read path.
bench: setup
	$(BIN)/python bench/bench.py $(if $(BASELINE),--baseline $(BASELINE))

# The array killed two hundred times under load; the figures on stdout.
crash: setup
	HAKARU_KILLS=200 cargo test -p hakaru-engine --release --test crash -- --nocapture

# Storms, races and flipped bits as long and as large as docs/reference/faults.md names them; the tables on stdout.
storms: setup
	HAKARU_STORMS=full cargo test -p hakaru-engine --release --test storms -- --nocapture
	HAKARU_STORMS=full cargo test -p hakaru-world --release --test digests -- --nocapture

fuzz: setup
	fuzz/run.sh

# Write the generated files that tests hold up to date.
schema: setup
	$(BIN)/hakaru-engine schema > schema/contract.schema.json
	$(BIN)/hakaru schema > schema/study.schema.json
	$(BIN)/hakaru schema array > schema/array.schema.json

# The README's figure, from the newest run.
figure: setup
	$(BIN)/python tools/readme-figure

clean:
	rm -rf $(VENV) target results
