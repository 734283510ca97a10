#!/usr/bin/env bash
# Makes .venv and installs the project into it, editable, under ci/constraints.txt. Every file is
# compared with its hash in ci/hashes.txt, where that has hashes for the machine and the torch.
#
#   bash ci/setup.sh [run|dev]      dev adds the linters; silent and quick when nothing changed
#
# PYTHON              the interpreter to use (default: the first with version 3.11 or later)
# KILLPOINT_TORCH     a requirement, path or URL: the torch to install, whatever it brings along
# KILLPOINT_UNHASHED  not empty: versions alone are pinned, for an index that builds its own files
# pip's own settings (index, find-links, PIP_CONSTRAINT) hold as they are.
#
# Progress goes to stdout. A failure is one line on stderr, and status 70.
set -uo pipefail

extra=${1:-run}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
state=$venv/.killpoint # stamps; `ours`: we made it; `unfinished`: stopped half-way; `torch`: our pin
stamp=$state/done-$extra
unset PYTHONFAULTHANDLER PYTHONHOME
export PIP_USER=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'set-up: %s\n' "$*"; }

die() { # a venv that may hold half a package keeps its mark, and is made anew next time
    [[ -n ${spoiled:-} ]] || rm -f "$state/unfinished"
    printf 'killpoint set-up: %s\n' "$*" >&2
    exit 70
}

in_venv() { "$venv/bin/python" -I "$@" </dev/null; }

identity() { "$@" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)' 2>/dev/null; }

find_python() {
    local python
    for python in ${PYTHON:+"$PYTHON"} ${PYTHON-python3 python python3.13 python3.12 python3.11}; do
        "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null </dev/null && echo "$python" && return
    done
    return 1
}

usable() { # a venv that was neither moved nor broken, of the interpreter that was asked for
    local probe='
import os, sys
sys.exit(sys.version_info < (3, 11) or not os.path.samefile(sys.prefix, sys.argv[1]))'
    [[ ! -e $state/unfinished ]] && [[ ! -e $state/root || $(<"$state/root") == "$root" ]] &&
        in_venv -c "$probe" "$venv" 2>/dev/null &&
        [[ -z ${PYTHON:-} || $(identity "$PYTHON") == "$(identity in_venv)" ]]
}

fingerprint() {
    cat "$root/pyproject.toml" "$root/ci/constraints.txt" "$root/ci/hashes.txt" "$root/ci/setup.sh" | sha256sum
    printf '%s\n' "$root"
    identity in_venv
}

complete() {
    local probe='
import importlib.util, sys
sys.exit(not all(map(importlib.util.find_spec, ["pip", "torch", "zmq", "msgspec", "pytest"])))'
    in_venv -c "$probe" && [[ -x $venv/bin/killpoint ]]
}

pip() { # STEP ARGUMENT…: quiet; what went wrong becomes one line
    local step=$1 log why error
    shift
    log=$(in_venv -m pip "$@" 2>&1) && return
    printf '%s\n' "$log" >"$state/log" 2>/dev/null
    case $log in
        *'No space left'* | *'quota exceeded'*) why='the disk is full' spoiled=1 ;;
        *'DO NOT MATCH THE HASHES'*) why='a file is not the one that ci/hashes.txt pins' ;;
        *'Retrying ('*) why='the package index cannot be reached' ;;
        *) why='pip failed' ;;
    esac
    error=$(grep -E '^ *ERROR:' <<<"$log" | head -n 1)
    die "$step: $why (${error:-no message}; whole log: .venv/.killpoint/log)"
}

torch_here() { in_venv -c 'from importlib.metadata import version as v; print(v("torch"))' 2>/dev/null; }

# shellcheck disable=SC2086 # a list of files, as pip reads it
constrained_by_user() { grep -qsiE '^torch\b' ${PIP_CONSTRAINT:-/dev/null}; }

has_gpu() { compgen -G '/dev/nvidia*' >/dev/null || command -v nvidia-smi >/dev/null; }

resolve() { # what $1 would bring: metadata alone, where the index can serve a part of a wheel
    in_venv -m pip install -q --dry-run --no-deps --ignore-installed --use-feature=fast-deps \
        --report "$state/report" "$1" >/dev/null 2>&1
}

choose_torch() { # sets `torch` (what to ask pip for, if anything) and `pinned` (is it our pin?)
    local pin here
    pin=$(sed -n 's/^torch==//p' "$root/ci/constraints.txt")
    here=$(torch_here)
    torch='' pinned=''
    if [[ -n ${KILLPOINT_TORCH:-} ]]; then
        torch=$KILLPOINT_TORCH
    elif [[ ${here%%+*} == "$pin" ]]; then
        pinned=1
    elif [[ -n $here && $here != "$(cat "$state/torch" 2>/dev/null)" ]]; then
        say "keeping the torch $here that is here"
    elif constrained_by_user; then
        torch=torch
    else
        pinned=1 torch=torch==$pin
        has_gpu || cpu_build "$pin"
    fi
}

cpu_build() { # a machine without a GPU is not made to fetch gigabytes of CUDA
    resolve "torch==$1+cpu" && torch=torch==$1+cpu && return
    resolve "torch==$1" || return 0 # the install will say why
    in_venv "$root/ci/brings_cuda.py" "$state/report" && die \
        "no GPU here, and the configured indexes offer only a CUDA build of torch $1:" \
        "set KILLPOINT_TORCH to a CPU build (requirement, path or URL)," \
        "or PIP_EXTRA_INDEX_URL to an index that has CPU wheels"
    return 0
}

have_hashes() { # for this machine: ci/hashes.txt has wheels of CPython, glibc and x86_64
    local probe='
import platform, sys
sys.exit((sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)), sys.implementation.name,
          platform.machine(), platform.libc_ver()[0]) != (False, "cpython", "x86_64", "glibc"))'
    [[ -z ${KILLPOINT_UNHASHED:-} ]] && in_venv -c "$probe"
}

pinned_rows() { # of ci/hashes.txt, those that this set-up needs; of torch none
    sed "$([[ $extra == dev ]] || echo '/^# dev/,/^$/d')" "$root/ci/hashes.txt" |
        sed "$([[ -n $pinned ]] || echo '/^# torch/,$d')" | grep -v '^torch=='
}

torch_row() { # the row of `torch`, for this Python
    local version
    version=$(in_venv -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    awk -v torch="$torch" '$1 == torch' "$root/ci/hashes.txt" |
        grep -E "^[^;]*$|python_version == \"$version\""
}

install_hashed() { # clears `torch` if it came, too
    local lock=$state/lock
    pinned_rows >"$lock" || die "cannot write to $state"
    if [[ -n $pinned && -n $torch ]]; then
        if torch_row >>"$lock"; then
            torch=''
        else
            say "no hash of $torch for this Python is known: its version alone is pinned"
        fi
    fi
    pip 'dependencies' install -q --no-compile --no-deps --require-hashes -r "$lock"
}

compile_imported() { # pip would compile all that it installs: torch alone has thousands of modules
    local module
    for module in torch numpy zmq hypothesis pytest; do
        in_venv -c "import $module" >/dev/null 2>&1
    done
}

install() {
    local limits=$state/constraints target=$root hashed=''
    rm -f "$state"/done-*
    if [[ $extra == dev ]]; then target+='[dev]'; else target+='[engines,reference]'; fi
    say 'build tools'
    in_venv -c 'import pip' 2>/dev/null || in_venv -m ensurepip >/dev/null 2>&1
    have_hashes && hashed=1
    if [[ -n $hashed ]]; then
        grep -E '^(pip|hatchling|editables)==' "$root/ci/hashes.txt" >"$state/lock" ||
            die "cannot write to $state"
        pip 'build tools' install -q --no-compile --no-deps --require-hashes -r "$state/lock"
    else
        pip 'build tools' install -q -c "$root/ci/constraints.txt" pip hatchling editables
    fi
    choose_torch
    if [[ -n $pinned ]]; then
        cp "$root/ci/constraints.txt" "$limits"
    else
        sed '/^# torch/,$d' "$root/ci/constraints.txt" >"$limits"
        [[ -n $torch ]] || echo "torch==$(torch_here)" >>"$limits"
    fi || die "cannot write to $state"
    say "dependencies${torch:+, with $torch}"
    if [[ -n $hashed ]]; then
        install_hashed
    else
        say 'versions alone are pinned, without hashes'
    fi
    if [[ -n $hashed && -n $pinned && -z $torch && $(torch_here) == *+cpu ]]; then
        pip 'the project' install -q --no-deps --no-build-isolation -e "$root"
    else # what a torch that is not ours, or one with CUDA, brings along has no hash here
        pip 'dependencies' install -q --no-compile --no-build-isolation -c "$limits" -e "$target" \
            ${torch:+"$torch"}
    fi
    compile_imported
    rm -f "$state/torch"
    [[ -z $pinned ]] || torch_here >"$state/torch"
}

make_venv() {
    local python
    python=$(find_python) ||
        die "no Python 3.11 or later with venv and ensurepip in ${PYTHON:-PATH} (set PYTHON)"
    say "making .venv with $("$python" -V)"
    if ! { rm -rf "$venv" && mkdir -p "$state" && touch "$state/ours" "$state/unfinished" &&
        "$python" -m venv "$venv" </dev/null; } >/dev/null 2>&1; then
        rm -rf "$venv"
        die "cannot make $venv with $python (is the disk full?)"
    fi
}

up_to_date() {
    [[ -e $stamp && $(<"$stamp") == "$(fingerprint)" ]] &&
        [[ -z ${KILLPOINT_TORCH:-} || $KILLPOINT_TORCH == "$(cat "$state/asked" 2>/dev/null)" ]]
}

finish() {
    printf '%s\n' "$root" >"$state/root" || return
    printf '%s' "${KILLPOINT_TORCH:-}" >"$state/asked" || return
    [[ $extra == run ]] || fingerprint >"$state/done-dev" || return
    fingerprint >"$state/done-run" || return
    rm -f "$state/unfinished"
    say "done in $SECONDS s"
}

[[ $extra == run || $extra == dev ]] || die "unknown set-up '$extra': run or dev"
exec 9<"$root" || die "cannot open $root"
flock -n 9 || { say 'waiting for another set-up' && flock 9; } || die 'cannot lock the project folder'
if usable && up_to_date; then
    complete && exit
    rm -rf "$venv"
fi
usable || make_venv
mkdir -p "$state" || die "cannot write to $venv"
[[ ! -e $state/ours ]] || touch "$state/unfinished" || die "cannot write to $state"
install
finish 2>/dev/null || die "cannot write to $state"
