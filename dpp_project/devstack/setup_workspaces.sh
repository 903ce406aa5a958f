#!/bin/sh
# What holds workspaces as processes of this machine: bubblewrap, and a tar, a Python and tools that Debian always has.
#
#   setup_workspaces.sh         install what is missing, or fail and say what to type
#   setup_workspaces.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done sells none
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
part=workspaces
packages='bubblewrap tar python3 util-linux'
without='no workspace is started (`manage.py check` says why), and the tests of their driver are skipped,'
. "$(dirname "$0")/apt.sh"

has_all() {
    command -v bwrap >/dev/null 2>&1 || return 1
    for program in tar setpriv unshare; do
        [ -x "/usr/bin/$program" ] || return 1
    done
    /usr/bin/python3 -I -S -c 'import ctypes, json, selectors, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null
}

if has_all; then exit 0; fi
apt_install "install bubblewrap (Linux alone has it; elsewhere take the docker driver)"
