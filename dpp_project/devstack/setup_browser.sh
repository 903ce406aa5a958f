#!/bin/sh
# What the journeys of the tests look at pages with: Chromium, its driver, and a font for Korean.
#
#   setup_browser.sh         install what is missing, or fail and say what to type
#   setup_browser.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done skips them
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
part=browser
packages='chromium chromium-driver fonts-dejavu-core fonts-nanum'
without='the journeys through pages in a browser are skipped,'
. "$(dirname "$0")/apt.sh"

if command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1; then exit 0; fi
apt_install "install Chromium and its driver, as chromium and chromedriver"
