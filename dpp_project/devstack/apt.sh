# Sourced by setup_*.sh, which says beforehand `part`, `packages`, `may` and what `without` them does not work.
# shellcheck shell=sh

root=$(cd "$(dirname "$0")/../.." && pwd)
tried=$root/.devstack/setup-$part-tried
log=$root/.devstack/logs/setup-$part.log

say() { printf 'setup-%s: %s\n' "$part" "$*"; }
stop() {
    say "$*" >&2
    if [ "$may" = yes ]; then
        say "$without until \`make setup-$part\` has run" >&2
        exit 0
    fi
    exit 1
}

# Installs the packages, or says what to type: $1 where there is no apt. With --may it is tried once.
apt_install() {
    if [ "$may" = yes ] && [ -f "$tried" ]; then exit 0; fi
    mkdir -p "$root/.devstack/logs"
    touch "$tried"
    command -v apt-get >/dev/null 2>&1 || stop "$1"
    [ "$(id -u)" -eq 0 ] || stop "run: sudo apt-get install -y --no-install-recommends $packages"
    say "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    quick='-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=60'
    # shellcheck disable=SC2086  # lists of words
    {
        apt-get $quick install -y -q --no-install-recommends $packages ||
            { apt-get $quick update -q && apt-get $quick install -y -q --no-install-recommends $packages; }
    } >"$log" 2>&1 || { tail -n 10 "$log" >&2; stop "apt-get could not install them (see above and $log)"; }
    say "ready"
}
