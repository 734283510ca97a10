#!/usr/bin/env bash
# The one command for a GPU runner: on devices that nobody else uses, and which must have their
# memory back afterwards.
#
#   bash ci/gpu-gate.sh [DEVICE…]      every case and test of this project that needs a GPU
#   bash ci/gpu-gate.sh [DEVICE…] -- ARGUMENT…
#                                      `killpoint check --device cuda ARGUMENT…`: a target of yours
#
# DEVICE          as nvidia-smi numbers or names it; default: all there are
# GPU_GATE_OUT    folder for JUnit, summary, replays and the run's facts (default: runs/gpu)
# GPU_GATE_MEMORY_WITHIN  seconds in which the devices must have their memory back (default: 60)
# KILLPOINT_TORCH, PYTHON: see ci/setup.sh
#
# Status: 0 all holds; 1 something is violated, or memory or a process stays; 2 bad usage;
# 3 inconclusive, or there is no GPU that may be used, in one line; 70 infrastructure: nothing was
# learnt of the target, so that alone may be tried again. Nothing is tried again here.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
out=${GPU_GATE_OUT:-$root/runs/gpu}
returns_within=${GPU_GATE_MEMORY_WITHIN:-60} slack_mib=64 ends_within=3
unset PYTHONFAULTHANDLER PYTEST_ADDOPTS PYTHONDONTWRITEBYTECODE

refuse() {
    printf 'gpu-gate: %s\n' "$*" >&2
    exit 3
}

say() { printf 'gpu-gate: %s\n' "$*" >&2; }

ask() { # FIELDS OF WHAT [OPTION…]: lines without headers or units
    local fields=$1 what=$2
    shift 2
    nvidia-smi "--query-$what=$fields" --format=csv,noheader,nounits "$@" 2>/dev/null </dev/null
}

mib() { ask uuid,memory.used gpu "${of[@]}" | tr -d ' '; }

users() { # compute processes on the chosen devices: UUID,PID
    ask gpu_uuid,pid compute-apps | tr -d ' ' | grep -F -f <(printf '%s\n' "${uuids[@]}")
}

# What is judged carries our mark in its environment, whoever its parent is by then.
mark=KILLPOINT_GATE=$$-$RANDOM$RANDOM
owned() { # their pids
    grep -lszxF "$mark" /proc/[0-9]*/environ | tr -cd '0-9\n'
}

told() { # PID…: each with what it runs
    local pid
    for pid; do printf '%s (%s) ' "$pid" "$(cat "/proc/$pid/cmdline" 2>/dev/null | tr '\0' ' ')"; done
}

gone() { # SECONDS: whether nobody of them is left by then
    local end=$((SECONDS + $1))
    while [[ -n $(owned) ]]; do
        ((SECONDS < end)) || return
        sleep 0.1
    done
}

end_owned() { # SIGTERM, then SIGKILL; prints who was there
    local pids
    mapfile -t pids < <(owned)
    ((${#pids[@]})) || return 0
    told "${pids[@]}"
    kill "${pids[@]}" 2>/dev/null
    gone "$ends_within" && return 0
    mapfile -t pids < <(owned)
    ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null
    gone "$ends_within" || say "cannot be ended: $(owned | tr '\n' ' ')"
}

devices=()
while (($#)) && [[ $1 != -- ]]; do devices+=("$1") && shift; done
judged=$# # with a `--`, what follows is for `killpoint check`
(($# == 0)) || shift

command -v nvidia-smi >/dev/null || refuse 'no GPU here: there is no nvidia-smi'
chosen=$(IFS=,; printf '%s' "${devices[*]}")
of=(${chosen:+-i "$chosen"})
mapfile -t uuids < <(ask uuid gpu "${of[@]}" | tr -d ' ')
((${#uuids[@]})) || refuse "no GPU here: nvidia-smi knows none${chosen:+ like $chosen}"
for uuid in "${uuids[@]}"; do # held until the last process that we started has ended
    { exec {held}>>"${TMPDIR:-/tmp}/killpoint-$uuid.lock" && flock -n "$held"; } 2>/dev/null ||
        refuse "in use by another gate: $uuid"
done
taken=$(users)
[[ -z $taken ]] || refuse "in use by others (device,pid): $(tr '\n' ' ' <<<"$taken")"

CUDA_VISIBLE_DEVICES=$(IFS=,; printf '%s' "${uuids[*]}")
export CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER=PCI_BUS_ID
before=$(mib)
trap 'end_owned >/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM # a cancelled job: what we started goes with us

run() { # COMMAND…: marked, and as a child that a signal to us does not have to wait for
    env "$mark" "$@" </dev/null &
    wait $!
}

run bash "$root/ci/setup.sh" dev || exit
python=$root/.venv/bin/python
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
    refuse "torch $("$python" -c 'import torch; print(torch.__version__)') sees none of: $CUDA_VISIBLE_DEVICES"

mkdir -p "$out" && out=$(cd "$out" && pwd -P) && rm -f "$out/junit.xml" || exit 70
{
    date -u '+date    %Y-%m-%d %H:%M UTC'
    printf 'commit  %s\n' "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
    ask name,driver_version,memory.total gpu "${of[@]}" | sed 's/^/device  /'
    printf 'command bash ci/gpu-gate.sh %s\n' "${devices[*]} $([[ $judged == 0 ]] || printf -- '-- %s' "$*")"
    printf 'MiB     before: %s\n' "$(tr '\n' ' ' <<<"$before")"
} >"$out/facts.txt"

status=0
if ((judged)); then
    run "$root/.venv/bin/killpoint" check --device cuda --out "$out" --junit "$out/junit.xml" \
        --summary "${GITHUB_STEP_SUMMARY:-$out/summary.md}" "$@" || status=$?
else
    cd "$root" || exit 70
    run "$python" -m pytest -m gpu -o junit_logging=all --junitxml "$out/junit.xml" \
        --killpoint-out "$out" tests harness/killpoint/conformance || status=$?
    ((status != 5)) || refuse 'nothing ran: no case or test needs a GPU'
    ((status <= 1)) || status=70 # pytest itself was not able to
fi

stays() { # devices that use more than before, beyond what a driver keeps
    join -t, <(sort <<<"$before") <(mib | sort) |
        awk -F, -v slack=$slack_mib '$3 > $2 + slack { print $1 ": " $2 " -> " $3 " MiB" }'
}
classes() { # of what failed, as JUnit tells them: kinds, inconclusive, infrastructure
    grep -ohE '<(failure|error) type="[^"]+"|violated \([a-z-]+\)' "$out/junit.xml" 2>/dev/null |
        sed -E 's/.*"([^"]+)".*/\1/; s/.*\((.*)\)/\1/' | sort -u | tr '\n' ' '
}

left=$(end_owned)
if [[ -n $left ]]; then
    say "processes stayed, and were ended: $left"
    ((status)) || status=1
fi
end=$((SECONDS + returns_within))
while kept=$(stays) && [[ -n $kept ]] && ((SECONDS < end)); do sleep 1; done
failed=$(classes)
{
    printf 'MiB     after: %s\n' "$(mib | tr '\n' ' ')"
    printf 'status  %d %s\n' "$status" "${failed:-$(((status == 70)) && echo infrastructure)}"
} >>"$out/facts.txt"
cat "$out/facts.txt"
if [[ -n $kept ]]; then
    say "memory was not given back within $returns_within s: $kept (device,pid: $(users | tr '\n' ' '))"
    ((status)) || status=1
fi
exit "$status"
