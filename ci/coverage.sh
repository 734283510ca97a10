#!/usr/bin/env bash
# Branch coverage of impl/ and harness/ by the suite, over every process that it starts: forked
# roles, zygotes, workers, and those that are killed at a point.
#
#   bash ci/coverage.sh [ARGUMENT of pytest…]    default: tests/impl tests/harness and conformance
#
# COVERAGE_OUT    folder for coverage.json and the tests' output (default: runs/coverage)
# COVERAGE_LEAST  percent of impl/ below which the status is 1 (default: 90)
#
# Status: that of the tests if one failed, else 1 below that share.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root" || exit 70
out=${COVERAGE_OUT:-$root/runs/coverage}
least=${COVERAGE_LEAST:-90}
unset PYTHONFAULTHANDLER PYTEST_ADDOPTS PYTHONDONTWRITEBYTECODE
unset COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG
PATH=$root/.venv/bin:$PATH

bash ci/setup.sh dev || exit
mkdir -p "$out" || exit 70
parts=$(mktemp -d "${TMPDIR:-/tmp}/killpoint-coverage-XXXXXX") || exit 70
trap 'rm -rf "$parts"' EXIT
# Absolute: a role works in a folder of its own.
export COVERAGE_FILE=$parts/part COVERAGE_RCFILE=$root/pyproject.toml
export PYTEST_XDIST_AUTO_NUM_WORKERS=${PYTEST_XDIST_AUTO_NUM_WORKERS:-$(nproc)}
(($#)) || set -- tests/impl tests/harness harness/killpoint/conformance

status=0
coverage run -m pytest -n auto --dist worksteal "$@" </dev/null || status=$?
printf '\nfrom %d processes\n' "$(find "$parts" -name 'part.*' | wc -l)"
coverage combine -q || exit 70
coverage json -q -o "$out/coverage.json" || exit 70
python ci/coverage_totals.py "$out/coverage.json" "$least" || ((status)) || status=1
exit "$status"
