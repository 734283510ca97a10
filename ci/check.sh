#!/usr/bin/env bash
# Judges the reference implementation and prints the card; the run's folder lands under runs/.
#
#   bash ci/check.sh [ARGUMENT of `killpoint check`…]
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
unset PYTHONFAULTHANDLER
unset PYTHONDONTWRITEBYTECODE # every role's interpreter would compile us anew

exec 3>&1
[[ " $* " != *' --json '* ]] || exec 3>/dev/null # stdout is the caller's to parse
bash "$root/ci/setup.sh" run >&3 || exit
exec 3>&-
exec "$root/.venv/bin/killpoint" check --out "$root/runs" "$@"
