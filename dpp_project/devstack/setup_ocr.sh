#!/bin/sh
# The data of the ocr pack: Tesseract's Korean and English, and the fonts that its tests and bench print with.
# The engine itself is a wheel (requirements/base.txt).
#
#   setup_ocr.sh         install what is missing, or fail and say what to type
#   setup_ocr.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done works without ocr
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
tried=$root/.devstack/setup-ocr-tried
log=$root/.devstack/logs/setup-ocr.log
packages='tesseract-ocr-kor tesseract-ocr-eng tesseract-ocr-osd fonts-nanum'

say() { printf 'setup-ocr: %s\n' "$*"; }
stop() {
    say "$*" >&2
    if [ "$may" = yes ]; then
        say "the ocr pack answers ENGINE_UNAVAILABLE until \`make setup-ocr\` has run" >&2
        exit 0
    fi
    exit 1
}

has_data() {
    usual='/usr/share/tesseract-ocr/5/tessdata /usr/share/tesseract-ocr/4.00/tessdata
        /usr/share/tessdata /usr/local/share/tessdata /opt/homebrew/share/tessdata'
    for folder in ${TESSDATA_PREFIX:-$usual}; do
        if [ -f "$folder/kor.traineddata" ] && [ -f "$folder/eng.traineddata" ] && [ -f "$folder/osd.traineddata" ]; then
            return 0
        fi
    done
    return 1
}

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
if has_data && [ -f /usr/share/fonts/truetype/nanum/NanumGothic.ttf ]; then exit 0; fi
if [ "$may" = yes ] && [ -f "$tried" ]; then exit 0; fi
mkdir -p "$root/.devstack/logs"
touch "$tried"

command -v apt-get >/dev/null 2>&1 || stop "put kor, eng and osd.traineddata into a folder and name it in TESSDATA_PREFIX (github.com/tesseract-ocr/tessdata_fast)"
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
