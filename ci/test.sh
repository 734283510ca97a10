#!/usr/bin/env bash
# Lints, types, import contracts, tests: all run, all timed; the status is the first failure's.
#
#   bash ci/test.sh [--fast] [ARGUMENT of pytest…]
#
# --fast: the inner loop, within a minute: of the tests those that start no process.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root" || exit 70
unset PYTHONFAULTHANDLER PYTEST_ADDOPTS
unset PYTHONDONTWRITEBYTECODE # hundreds of interpreters start: each would compile us anew
PATH=$root/.venv/bin:$PATH
status=0 summary=''
chosen=()
[[ ${1:-} == --fast ]] && chosen=(--fast tests)

part() { # NAME COMMAND…
    local name=$1 began=$SECONDS rc=0
    shift
    printf '\n== %s\n' "$name"
    "$@" </dev/null || rc=$?
    ((status)) || status=$rc
    summary+=$(printf '%-14s %5d s  %s' "$name" $((SECONDS - began)) "$( ((rc)) && echo "failed ($rc)" || echo ok)")$'\n'
}

compile_tests() {
    local half rc=0
    pytest --collect-only -qq tests/harness >/dev/null &
    half=$!
    pytest --collect-only -qq --ignore tests/harness >/dev/null || rc=$?
    wait "$half" && ((rc == 0))
}

part set-up bash ci/setup.sh dev
if ((status == 0)); then
    said=$(mktemp) || exit 70
    basedpyright </dev/null >"$said" 2>&1 & # one thread, for a minute: beside what follows
    types=$!
    trap 'kill "$types" 2>/dev/null; rm -f "$said"' EXIT
    part 'ruff check' ruff check .
    part 'ruff format' ruff format --check .
    part imports lint-imports --no-logo
    # Most of a test's time is a wait for processes: three workers for each core, as a check plays;
    # with two a fifth of the processors' time was idle. What starts none never waits.
    workers=$(($(nproc) * 3))
    ((${#chosen[@]})) && shift && workers=$(nproc)
    export PYTEST_XDIST_AUTO_NUM_WORKERS=${PYTEST_XDIST_AUTO_NUM_WORKERS:-$workers}
    # Every worker collects all tests. In a fresh clone each would compile them, too: it is done
    # before, in two halves.
    ((${#chosen[@]} || $#)) || part collection compile_tests
    part tests pytest -n auto --dist worksteal "${chosen[@]}" "$@"
    part types eval 'rc=0; wait "$types" || rc=$?; types=; cat "$said"; (exit "$rc")'
fi
printf '\n%s' "$summary"
exit "$status"
