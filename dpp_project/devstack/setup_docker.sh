#!/bin/sh
# A Docker daemon for the tests of the workspaces' Docker driver, on a socket of its own: no bridge, no rule of iptables,
# nothing of another daemon touched. Its image is made of this machine's own packages: no registry is asked.
#
#   setup_docker.sh         install what is missing, or fail and say what to type
#   setup_docker.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done skips those tests
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
part=docker
packages='docker.io'
without='the tests of the Docker driver are skipped, by name,'
. "$(dirname "$0")/apt.sh"

if command -v dockerd >/dev/null 2>&1; then exit 0; fi
apt_install "install Docker Engine (docs.docker.com/engine/install)"
