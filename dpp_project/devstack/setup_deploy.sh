#!/bin/sh
# promtool, which checks the alert rules (deploy/prometheus). Only this program out of Debian's package: installed whole it
# would start a Prometheus on this machine. Nothing here needs root.
#
#   setup_deploy.sh         fetch it, or fail and say what to type
#   setup_deploy.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done skips that test
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
root=$(cd "$(dirname "$0")/../.." && pwd)
place=$root/.devstack/tools
tried=$root/.devstack/setup-deploy-tried

say() { printf 'setup-deploy: %s\n' "$*"; }
stop() {
    say "$*" >&2
    if [ "$may" = yes ]; then
        say "the alert rules are not checked by promtool until \`make setup-deploy\` has run" >&2
        exit 0
    fi
    exit 1
}

if command -v promtool >/dev/null 2>&1 || [ -x "$place/promtool" ]; then exit 0; fi
if [ "$may" = yes ] && [ -f "$tried" ]; then exit 0; fi
mkdir -p "$place"
touch "$tried"
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || stop "install promtool (macOS: brew install prometheus)"
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
chmod 755 "$draft"
say "fetching promtool (19 MB)"
{
    cd "$draft"
    timeout 120 apt-get download -q -o Acquire::Retries=1 -o Acquire::http::Timeout=20 prometheus
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
} >"$draft/log" 2>&1 || { tail -n 5 "$draft/log" >&2; stop "apt-get could not fetch it: apt-get update first, or install promtool"; }
mv usr/bin/promtool "$place/promtool.new"
mv "$place/promtool.new" "$place/promtool"
say "ready"
