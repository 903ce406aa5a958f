#!/bin/sh
# The virtual environments, from nothing but a Python: `bootstrap.sh base` (to run), `bootstrap.sh dev` (to test too).
#
# Plain sh, because there may be no Python that works: names like python3.12 on PATH can be shims that fail, and Debian's
# python3 comes without venv. So every candidate is run before it is believed. A stamp in each environment holds the lock
# file it was made from; where nothing changed this costs a few milliseconds.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
logs=$root/.devstack/logs
least='3, 11'

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
now() { date +%s; }

# Answers with status 0 when this command is a Python we can use, 3 when only its venv module is missing.
judge() {
    "$1" -c "
import sys
if sys.version_info < ($least): sys.exit(4)
try: import venv, ensurepip
except ImportError: sys.exit(3)
" >/dev/null 2>&1
}

candidates() {
    # Those the locks are tested on come first.
    printf '%s\n' python3.13 python3.12 python3.14
    for python in "$HOME"/.pyenv/versions/3.13.*/bin/python "$HOME"/.pyenv/versions/3.12.*/bin/python \
        "$HOME"/.pyenv/versions/3.14.*/bin/python; do
        if [ -x "$python" ]; then printf '%s\n' "$python"; fi
    done
    printf '%s\n' python3 /usr/bin/python3 python3.11
}

# Prints the first usable Python. Status 3: there is one, only venv is missing, and its name is printed.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        status=0; judge "$PYTHON" || status=$?
        printf '%s\n' "$PYTHON"
        return $status
    fi
    incomplete=
    for python in $(candidates); do
        status=0; judge "$python" || status=$?
        if [ $status -eq 0 ]; then printf '%s\n' "$python"; return 0; fi
        if [ $status -eq 3 ] && [ -z "$incomplete" ]; then incomplete=$python; fi
    done
    if [ -n "$incomplete" ]; then printf '%s\n' "$incomplete"; return 3; fi
    return 4
}

choose_python() {
    status=0; python=$(find_python) || status=$?
    case $status in
    0) return 0 ;;
    3) ;;
    *)
        [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is no Python of at least 3.11 that runs"
        fail "no Python of at least 3.11 was found. Install one (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python"
        ;;
    esac
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "$python lacks the venv module. Run: sudo apt-get install -y python$version-venv   (then again what you just ran)"
    fi
    say "$python lacks the venv module; installing python$version-venv with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p "$logs"
    { apt-get install -y -q "python$version-venv" || { apt-get update -q && apt-get install -y -q "python$version-venv"; }; } \
        >"$logs/apt.log" 2>&1 || { tail -n 15 "$logs/apt.log" >&2; fail "apt-get could not install python$version-venv (see above and $logs/apt.log)"; }
    status=0; python=$(find_python) || status=$?
    [ $status -eq 0 ] || fail "python$version-venv is installed, yet $python still lacks venv; name another: make PYTHON=/path/to/python"
}

works() { [ -x "$root/$1/bin/python" ] && "$root/$1/bin/python" -I -c 'import pip' >/dev/null 2>&1; }
stamped() { cmp -s "$root/$1/stamp-$2" "$root/requirements/$2.txt"; }

# install VENV LOCK: bring one environment to what one lock says.
install() {
    venv=$1 lock=$2 began=$(now)
    log=$logs/setup-${venv#.}.log
    if ! works "$venv"; then
        say "$venv: making it with $("$python" --version 2>&1) ($python)"
        "$python" -m venv --clear "$root/$venv" >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            fail "$venv could not be made (see above); name another Python: make PYTHON=/path/to/python"
        }
    fi
    rm -f "$root/$venv"/stamp-*
    say "$venv: installing requirements/$lock.txt"
    # Only wheels: what needs a compiler must fail here by name, not half an hour later.
    "$root/$venv/bin/python" -I -m pip install --require-hashes --only-binary=:all: --no-input --quiet \
        --disable-pip-version-check --root-user-action=ignore -r "$root/requirements/$lock.txt" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        fail "$venv: pip failed (see above and $log). It needs a package index: check the network, HTTPS_PROXY or PIP_INDEX_URL, then run the same again"
    }
    cp "$root/requirements/$lock.txt" "$root/$venv/stamp-$lock"
    # The locks agree with each other, so who has all of dev has all of base.
    if [ "$lock" = dev ]; then cp "$root/requirements/base.txt" "$root/$venv/stamp-base"; fi
    say "$venv: ready ($(($(now) - began)) s)"
}

main() {
    if [ "${1:-}" = --print-python ]; then choose_python; printf '%s\n' "$python"; exit 0; fi
    lock=${1:?base or dev}
    need_app= need_services=
    works .venv && stamped .venv "$lock" || need_app=1
    works .venv-devstack && stamped .venv-devstack devstack || need_services=1
    [ -n "$need_app$need_services" ] || exit 0

    mkdir -p "$logs"
    chmod 700 "$root/.devstack"
    if command -v flock >/dev/null 2>&1 && [ -z "${DEVSTACK_SETUP_LOCKED:-}" ]; then
        # Two at once would build over each other; the second finds the work done.
        DEVSTACK_SETUP_LOCKED=1 exec flock "$root/.devstack/setup.lock" sh "$0" "$@"
    fi
    # Environments being whole, any Python may be missing by now: only a new one needs it.
    python=
    if ! works .venv || ! works .venv-devstack; then choose_python; fi

    pid=
    if [ -n "$need_services" ]; then install .venv-devstack devstack & pid=$!; fi
    status=0
    if [ -n "$need_app" ]; then (install .venv "$lock") || status=$?; fi
    if [ -n "$pid" ]; then wait "$pid" || status=$?; fi
    exit $status
}

main "$@"
