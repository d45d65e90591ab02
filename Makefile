# Two commands: `make demo` builds a lab, loads it and ends with a report; `make test` is the gate that CI calls.
# Everything is set up inside the checkout: .venv (Python), target (Rust).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates -name "*.rs" -o -name Cargo.toml) Cargo.toml Cargo.lock tools/wheel/scripts/hakaru
MATURIN := . $(BIN)/activate && PIP_QUIET=1 maturin develop --quiet --extras dev

# Tests share one build, cargo's `dev` profile: checks for overflow and debug assertions are on. It is never what
# `hakaru` finds by itself, because a slow engine would be measured in the place of the array.
TEST_ENGINE := $(CURDIR)/target/debug/hakaru-engine
TESTED := HAKARU_ENGINE=$(TEST_ENGINE) $(BIN)/pytest -q

# Most tests that build labs wait rather than compute: one more at a time than there are processors.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# Files that take longest are begun first.
LONGEST := tests/run tests/conformance tests/lab tests/array

.PHONY: demo test setup lint test-rust test-python test-guests test-long bench crash storms fuzz schema limits figure clean

demo: setup
	$(BIN)/hakaru run vm-sweep --quick

test: lint test-rust test-python

setup: $(VENV)/.engine

# System packages: installed where that is allowed, else named; the Python environment.
$(VENV)/.ready: tools/system-packages
	tools/system-packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip 'maturin>=1.9,<2'
	touch $@

# `hakaru` (editable) with every dependency, and a release build of `hakaru-engine`, in the virtual environment.
$(VENV)/.engine: $(VENV)/.ready pyproject.toml $(RUST_SOURCES)
	$(MATURIN) --release
	touch $(VENV)/.package $@

# `hakaru` (editable) with every dependency, and no engine: tests name theirs.
$(VENV)/.package: $(VENV)/.ready pyproject.toml
	$(MATURIN)
	rm -f $(BIN)/hakaru-engine $(VENV)/.engine
	touch $@

lint: $(VENV)/.package
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q $(STRUCTURE)

# Which module may import which, and what a core crate may name.
STRUCTURE := tests/test_layering.py tests/test_packages.py tests/test_rust_modules.py

test-rust: $(VENV)/.ready
	cargo test --workspace --quiet

$(TEST_ENGINE): $(RUST_SOURCES)
	cargo build --quiet --package hakaru-engine
	touch $@

# Tests marked `alone` measure rates or times: they run while nothing else does.
test-python: $(VENV)/.package $(TEST_ENGINE)
	$(TESTED) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not alone" $(LONGEST) tests --ignore=tests/guests \
		$(addprefix --ignore=,$(STRUCTURE))
	$(TESTED) -m alone --ignore=tests/guests tests

# A stock Debian guest against the array: minutes where its processor is emulated. Brings 100 MB of packages once.
test-guests: $(VENV)/.package $(TEST_ENGINE)
	$(TESTED) tests/guests

# The long forms of checks that the gate runs in a short form: `crash` and `storms`; crates/pool with sixteen times the
# images per power cut, twenty times the simulated seeds and fifty times the damages; all damages at all packets in
# crates/dissect; property tests with CASES cases (gate: 256), in Python with 5000 (gate: 100). Takes several hours
# on two processors. Stops at the first failure; HAKARU_LONG=1 gives a single test its long form.
CASES ?= 8192
test-long: crash storms $(TEST_ENGINE)
	HAKARU_LONG=1 cargo test --quiet --package hakaru-pool --tests
	HAKARU_LONG=1 PROPTEST_CASES=$(CASES) cargo test --quiet --package hakaru-dissect --tests
	PROPTEST_CASES=$(CASES) cargo test --quiet $(addprefix --package hakaru-,$(PROPERTIES)) --lib --tests
	HAKARU_LONG=1 $(TESTED) $$(grep -rl "from hypothesis import" tests --include="test_*.py")

# Crates with property tests, apart from hakaru-dissect.
PROPERTIES := fabric iscsi-session iscsi-target load send-queue wire

# Ratios against peers in one run; the table on stdout, everything in results/bench.json.
# BASELINE=DIR compares every figure with that of an earlier commit's checkout, after `make setup` there; the table on
# stdout, everything in results/baseline.json.
bench: setup
	$(BIN)/python bench/bench.py $(if $(BASELINE),--baseline $(BASELINE))

# The array killed two hundred times under load; the figures on stdout.
crash: setup
	HAKARU_LONG=1 cargo test -p hakaru-engine --release --test crash -- --nocapture

# Storms, races and flipped bits as long and as large as docs/reference/faults.md names them; the tables on stdout.
storms: setup
	HAKARU_LONG=1 cargo test -p hakaru-engine --release --test storms -- --nocapture
	HAKARU_LONG=1 cargo test -p hakaru-world --release --test digests -- --nocapture

fuzz: setup
	fuzz/run.sh

# Write the generated files that tests hold up to date.
schema: setup
	$(BIN)/hakaru-engine schema > schema/contract.schema.json
	tools/login-defaults > python/hakaru/login_defaults.py
	$(BIN)/hakaru schema > schema/study.schema.json
	$(BIN)/hakaru schema array > schema/array.schema.json
	$(BIN)/hakaru schema report > schema/report.schema.json
	$(BIN)/python tools/rules.py

# Labs with one planted bottleneck each, judged by the analysis; writes docs/methodology/limits.md. Wants a quiet machine.
limits: setup
	$(BIN)/python bench/limits.py

# The README's figure, from the newest run.
figure: setup
	$(BIN)/python tools/readme-figure

clean:
	rm -rf $(VENV) target results
