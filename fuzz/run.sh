#!/bin/sh
# Runs every fuzz target and the fuzzing of study files for SECONDS each (first argument, default
# 30). Exits non-zero on the first finding, which is stored in fuzz/artifacts. Seeds are in
# fuzz/corpus. New inputs that the fuzzer discovers go to fuzz/corpus-new, which is not committed.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-30}
tools=$PWD/target/tools
PATH=$tools/bin:$PATH

# libFuzzer is C++, and cargo-fuzz builds it from source.
command -v c++ >/dev/null || { echo "error: no C++ compiler" >&2; echo "hint: install g++" >&2; exit 3; }
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked --root "$tools" cargo-fuzz@0.13.2

# Works on a stable toolchain: the code under test has no unsafe code that a sanitizer could check
# (`-s none`), and coverage instrumentation is a stable code generation flag.
cargo fuzz build --fuzz-dir fuzz -s none
mkdir -p fuzz/artifacts
for target in $(cargo fuzz list --fuzz-dir fuzz); do
    mkdir -p "fuzz/corpus-new/$target"
    log=fuzz/artifacts/$target.log
    # No input may take more than one second or 512 MiB.
    cargo fuzz run --fuzz-dir fuzz -s none "$target" "fuzz/corpus-new/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=8192 -timeout=1 -rss_limit_mb=512 -print_final_stats=1 >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, no finding"
done
if [ -f fuzz/study_files.py ]; then
    python=.venv/bin/python
    [ -x "$python" ] || python=${PYTHON:-python3}
    echo "fuzz: study_files, $seconds s" >&2
    PYTHONPATH=python "$python" fuzz/study_files.py "$seconds"
fi
