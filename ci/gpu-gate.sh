#!/usr/bin/env bash
# The one command for a GPU runner: every case and test that needs a GPU, on devices that nobody
# else uses, which must have their memory back afterwards.
#
#   bash ci/gpu-gate.sh [DEVICE…]      as nvidia-smi numbers or names them; default: all there are
#
# GPU_GATE_OUT   folder for JUnit and the run's facts (default: runs/gpu)
# KILLPOINT_TORCH, PYTHON: see ci/setup.sh
#
# Status: that of the tests; 3 if there is no GPU that may be used, in one line; 1 if memory stays.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
out=${GPU_GATE_OUT:-$root/runs/gpu}
returns_within=60 slack_mib=64
unset PYTHONFAULTHANDLER PYTEST_ADDOPTS PYTHONDONTWRITEBYTECODE

refuse() {
    printf 'gpu-gate: %s\n' "$*" >&2
    exit 3
}

ask() { # FIELDS OF WHAT [OPTION…]: lines without headers or units
    local fields=$1 what=$2
    shift 2
    nvidia-smi "--query-$what=$fields" --format=csv,noheader,nounits "$@" 2>/dev/null </dev/null
}

mib() { ask uuid,memory.used gpu "${of[@]}" | tr -d ' '; }

users() { # compute processes on the chosen devices: UUID,PID
    ask gpu_uuid,pid compute-apps | tr -d ' ' | grep -F -f <(printf '%s\n' "${uuids[@]}")
}

command -v nvidia-smi >/dev/null || refuse 'no GPU here: there is no nvidia-smi'
chosen=$(IFS=,; printf '%s' "$*")
of=(${chosen:+-i "$chosen"})
mapfile -t uuids < <(ask uuid gpu "${of[@]}" | tr -d ' ')
((${#uuids[@]})) || refuse "no GPU here: nvidia-smi knows none${chosen:+ like $chosen}"
taken=$(users)
[[ -z $taken ]] || refuse "in use by others (device,pid): $(tr '\n' ' ' <<<"$taken")"

CUDA_VISIBLE_DEVICES=$(IFS=,; printf '%s' "${uuids[*]}")
export CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER=PCI_BUS_ID
before=$(mib)
bash "$root/ci/setup.sh" dev || exit
python=$root/.venv/bin/python
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
    refuse "torch $("$python" -c 'import torch; print(torch.__version__)') sees none of: $CUDA_VISIBLE_DEVICES"

mkdir -p "$out" || exit 70
{
    date -u '+date    %Y-%m-%d %H:%M UTC'
    printf 'commit  %s\n' "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
    ask name,driver_version,memory.total gpu "${of[@]}" | sed 's/^/device  /'
    printf 'command bash ci/gpu-gate.sh %s\n' "$*"
    printf 'MiB     before: %s\n' "$(tr '\n' ' ' <<<"$before")"
} >"$out/facts.txt"

status=0
(cd "$root" && "$python" -m pytest -m gpu -o junit_logging=all --junitxml "$out/junit.xml" \
    tests harness/killpoint/conformance </dev/null) || status=$?
((status != 5)) || refuse 'nothing ran: no case or test needs a GPU'

stays() { # devices that use more than before, beyond what a driver keeps
    join -t, <(sort <<<"$before") <(mib | sort) |
        awk -F, -v slack=$slack_mib '$3 > $2 + slack { print $1 ": " $2 " -> " $3 " MiB" }'
}
end=$((SECONDS + returns_within))
while left=$(stays) && [[ -n $left ]] && ((SECONDS < end)); do sleep 1; done
printf 'MiB     after: %s\n' "$(mib | tr '\n' ' ')" >>"$out/facts.txt"
cat "$out/facts.txt"
if [[ -n $left ]]; then
    printf 'gpu-gate: memory was not given back within %d s: %s (device,pid: %s)\n' \
        "$returns_within" "$left" "$(users | tr '\n' ' ')" >&2
    ((status)) || status=1
fi
exit "$status"
