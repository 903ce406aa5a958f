#!/bin/sh
# What builds the container image and runs it without an engine: buildah, debootstrap for its base, runc.
#
#   setup_image.sh         install what is missing, or fail and say what to type
#   setup_image.sh --may   the same once, before `make prove`: a machine where it cannot be done fails that proof alone
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
part=image
packages='buildah debootstrap runc'
without='`make image-test` does not work,'
. "$(dirname "$0")/apt.sh"

if command -v buildah >/dev/null 2>&1 && command -v debootstrap >/dev/null 2>&1 && command -v runc >/dev/null 2>&1; then exit 0; fi
apt_install "install buildah, debootstrap and runc"
