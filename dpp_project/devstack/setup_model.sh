#!/bin/sh
# What checks the protocol's model (models/): spin, and a C compiler with its headers, as spin writes its checker in C.
#
#   setup_model.sh         install what is missing, or fail and say what to type
#   setup_model.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done skips those tests
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
part=model
packages='spin gcc libc6-dev'
without='tests/unit/test_models_protocol.py skips the checks of the model, and `make prove P=model` shows nothing,'
. "$(dirname "$0")/apt.sh"

compiles() { printf '#include <stdio.h>\n' | gcc -x c -fsyntax-only - 2>/dev/null; }

if command -v spin >/dev/null 2>&1 && compiles; then exit 0; fi
apt_install "install spin and gcc (macOS: brew install spin gcc)"
