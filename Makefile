# Main commands: `make demo` builds a lab, loads it and writes a report; `make test` is the gate
# that CI runs. Everything is set up inside the checkout: .venv (Python), target (Rust).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates -name "*.rs" -o -name Cargo.toml) Cargo.toml Cargo.lock tools/wheel/scripts/hakaru
MATURIN := . $(BIN)/activate && PIP_QUIET=1 maturin develop --quiet --extras dev

# All tests share one build in cargo's `dev` profile, with overflow checks and debug assertions.
# `hakaru` never finds this engine by itself, because a run would measure its slowness.
TEST_ENGINE := $(CURDIR)/target/debug/hakaru-engine
TESTED := HAKARU_ENGINE=$(TEST_ENGINE) $(BIN)/pytest -q

# Most tests that build labs wait rather than compute, so two more run than there are processors.
WORKERS ?= $(shell echo $$(($$(nproc) + 2)))

# Without its cache, Python would compile 300 modules at every start of hakaru.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test setup lint lint-rust lint-python test-rust test-rust-storms test-rust-others test-python test-guests test-long bench crash storms fuzz schema limits compare-pairs views search calibrate figure scorecard dist try-dist docs clean

demo: setup
	$(BIN)/hakaru run vm-sweep --quick

test: lint test-rust test-python

setup: $(VENV)/.engine

# Installs the system packages, or lists them without permission, and creates the Python
# environment.
$(VENV)/.ready: tools/system-packages
	tools/system-packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip 'maturin>=1.9,<2'
	touch $@

# Installs `hakaru` (editable) with every dependency and a release build of `hakaru-engine`.
$(VENV)/.engine: $(VENV)/.ready pyproject.toml $(RUST_SOURCES)
	$(MATURIN) --release
	touch $(VENV)/.package $@

# Installs `hakaru` (editable) with every dependency but no engine; tests set HAKARU_ENGINE.
$(VENV)/.package: $(VENV)/.ready pyproject.toml Cargo.toml
	$(MATURIN)
	rm -f $(BIN)/hakaru-engine $(VENV)/.engine
	touch $@

lint: $(VENV)/.package
	$(MAKE) --jobs 2 --output-sync lint-rust lint-python

lint-rust:
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

# The collection compiles all tests once. Otherwise each process of `test-python` compiles them all.
lint-python: $(VENV)/.package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q $(STRUCTURE)
	$(BIN)/pytest -q --collect-only tests >/dev/null

# Tests of the rules which module may import which, and which names a core crate may use.
STRUCTURE := tests/test_layering.py tests/test_packages.py tests/test_rust_modules.py

# The storms wait for time-outs of the array, so other tests run meanwhile, apart from those that
# measure how long a read waits.
# The fuzz targets are a workspace of their own. A check needs neither a linker nor libFuzzer.
test-rust: $(VENV)/.ready
	cd fuzz && CUSTOM_LIBFUZZER_PATH=/unused/libfuzzer.a cargo check --quiet --locked
	cargo test $(MOST_CRATES) --quiet --no-run
	$(MAKE) --jobs 2 --output-sync test-rust-storms test-rust-others
	cargo test $(MOST_CRATES) --quiet --test other_lus
	cargo test --package hakaru-smb --quiet

# The tests of hakaru-smb enable a feature of `syn`, on which `serde` depends. Together with them,
# cargo would build all crates a second time, as the engine is built without that feature.
MOST_CRATES = --workspace --exclude hakaru-smb

test-rust-storms:
	MAKEFLAGS= cargo test $(MOST_CRATES) --quiet --test storms

test-rust-others:
	MAKEFLAGS= cargo test $(MOST_CRATES) --quiet -- --skip every_storm_passes_and_leaves_nothing \
		--skip served_while_another_is_worked_on

$(TEST_ENGINE): $(RUST_SOURCES)
	cargo build --quiet --package hakaru-engine
	touch $@

# Tests marked `alone` measure rates or times, so they run while nothing else does.
test-python: $(VENV)/.package $(TEST_ENGINE)
	$(TESTED) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not alone and not guest" tests \
		$(addprefix --ignore=,$(STRUCTURE))
	$(TESTED) -m "alone and not guest" $$(grep -rl "mark\.alone" tests --include="test_*.py")

# An emulated guest computes most of the time. While one waits for timers, another computes.
GUEST_WORKERS ?= $(shell echo $$(($$(nproc) + 1)))

# Boots stock Debian guests; takes minutes where their processors are emulated. Downloads 100 MB of
# packages once per recipe of an image. `test-python` runs the tests of guests that boot none.
test-guests: $(VENV)/.package $(TEST_ENGINE)
	$(TESTED) -n $(GUEST_WORKERS) --dist loadfile --no-loadscope-reorder -m guest tests/guests

# Runs the long forms of checks that the gate runs in a short form: `crash` and `storms`, and every
# other file that reads HAKARU_LONG; property tests with CASES cases (gate: 256), in Python with 5000
# (gate: 100). Takes several hours on two processors. Stops at the first failure. HAKARU_LONG=1
# selects the long form of a single test.
CASES ?= 8192
test-long: crash storms $(TEST_ENGINE)
	HAKARU_LONG=1 PROPTEST_CASES=$(CASES) cargo test --quiet $(addprefix --package hakaru-,$(LONG)) --lib --tests
	PROPTEST_CASES=$(CASES) cargo test --quiet $(addprefix --package hakaru-,$(PROPERTIES)) --lib --tests
	HAKARU_LONG=1 $(TESTED) $$(grep -rlE "from hypothesis import|HAKARU_LONG|tests.long_form" tests --include="test_*.py")

# Crates with long forms, apart from those that `crash` and `storms` run, and other crates with
# property tests.
LONG = $(filter-out engine world,$(shell grep -rl HAKARU_LONG crates --include=*.rs | cut -d / -f 2 | sort -u))
PROPERTIES = $(filter-out engine world $(LONG),$(shell grep -rl "proptest!" crates --include=*.rs | cut -d / -f 2 | sort -u))

# Measures hakaru and its peers in one run; prints a table and writes results/bench.json and
# docs/methodology/benchmark.md. Takes about 50 minutes.
# BASELINE=DIR compares every figure with that of an earlier commit's checkout, after `make setup`
# there; prints a table and writes results/baseline.json.
bench: setup
	$(BIN)/python bench/bench.py $(if $(BASELINE),--baseline $(BASELINE))

# Kills the array two hundred times under load, on a pool and on tapes; prints the figures.
crash: setup
	HAKARU_LONG=1 cargo test -p hakaru-engine --release --test crash --test tape -- --nocapture

# Runs storms, races and flipped bits in the lengths and sizes that docs/reference/faults.md
# specifies, and reads beside the longest commands to another LU; prints the tables.
storms: setup
	HAKARU_LONG=1 cargo test -p hakaru-engine --release --test storms --test other_lus -- --nocapture
	HAKARU_LONG=1 cargo test -p hakaru-world --release --test digests -- --nocapture

# Builds the wheels, the source distribution, the bill of materials and the recipe of a container
# image into `dist`, from the commit. Takes about ten minutes.
dist:
	tools/dist

# Tries what `make dist` has built: in an empty Debian, in a container, and on emulated processors.
# Needs root. Prints a table of times and sizes. Takes about a quarter of an hour.
try-dist:
	tools/try-install
	tools/try-wheels

# Builds the documentation site into target/docs, with search and in both languages, and checks its
# links. It is opened from the folder or served by any server, and loads nothing from elsewhere.
docs: $(VENV)/.docs
	$(BIN)/python tools/docs/build.py

$(VENV)/.docs: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

fuzz: setup
	fuzz/run.sh

# Writes the generated files. Tests check that they are up to date.
schema: setup
	$(BIN)/hakaru-engine schema > schema/contract.schema.json
	tools/login-defaults > python/hakaru/login_defaults.py
	$(BIN)/hakaru schema > schema/study.schema.json
	$(BIN)/hakaru schema array > schema/array.schema.json
	$(BIN)/hakaru schema report > schema/report.schema.json
	$(BIN)/python tools/rules.py
	$(BIN)/python tools/docs/pages.py

# Runs labs with one planted bottleneck each and checks the verdicts of the analysis; writes
# docs/methodology/limits.md. Needs an idle machine.
limits: setup
	$(BIN)/python bench/limits.py

# Compares pairs of identical runs, and pairs with a planted difference; prints how many are
# reported as different. Needs an idle machine. Takes 40 minutes.
compare-pairs: setup
	$(BIN)/python bench/compare_pairs.py

# Measures what a view (`hakaru attach`, `hakaru web`) costs the run that it shows, and kills views
# in the middle of a run. Needs an idle machine. Takes 25 minutes.
views: setup
	$(BIN)/python bench/views.py
	$(BIN)/python bench/views.py --kill

# Compares the ways to search for the highest load on simulated devices; writes the tables of
# docs/methodology/search.md. A test checks that they are up to date.
search: setup
	$(BIN)/python tools/search.py

# Runs every calibration and prints them as one table; writes docs/methodology/calibration.md. Takes
# about a quarter of an hour.
calibrate: setup
	$(BIN)/python tools/calibrate

# Draws the figures of README.md and docs/gallery.md from the newest run of each study.
figure: setup
	$(BIN)/python tools/readme-figure

# Runs the full forms of the studies with published numbers, and writes docs/scorecard.json and
# docs/scorecard.md, which states how long they take. Continues interrupted runs and skips finished
# ones; runs are in runs/scorecard. STUDIES="vm-sweep …" runs only these; the page keeps the numbers
# of other studies.
scorecard: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/scorecard $(STUDIES)

clean:
	rm -rf $(VENV) target results
