#!/bin/sh
# The data of the ocr pack: Tesseract's Korean and English, and the fonts that its tests and bench print with.
# The engine itself is a wheel (requirements/base.txt).
#
#   setup_ocr.sh         install what is missing, or fail and say what to type
#   setup_ocr.sh --may   the same once, as a part of `make setup`: a machine where it cannot be done works without ocr
set -eu

may=no
if [ "${1:-}" = --may ]; then may=yes; fi
part=ocr
packages='tesseract-ocr-kor tesseract-ocr-eng tesseract-ocr-osd fonts-nanum'
without='the ocr pack answers ENGINE_UNAVAILABLE'
. "$(dirname "$0")/apt.sh"

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

if has_data && [ -f /usr/share/fonts/truetype/nanum/NanumGothic.ttf ]; then exit 0; fi
apt_install "put kor, eng and osd.traineddata into a folder and name it in TESSDATA_PREFIX (github.com/tesseract-ocr/tessdata_fast)"
