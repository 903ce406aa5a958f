"""A line of print that the platform draws itself, read as a page is: where runs are forked from, before any."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from runs.packs.ocr.engine import OcrEngine
from runs.packs.ocr.page import PageReader
from runs.packs.ocr.profiles import PROFILES
from runs.packs.ocr.tessdata import folder

SECONDS = 3.0


def read_a_line() -> None:
    place = folder()
    if place is None:  # each run says so
        return
    sheet = Image.new("L", (640, 160), 255)
    ImageDraw.Draw(sheet).text((40, 60), "Results are kept for 30 days.", fill=0, font=ImageFont.load_default(32))
    with OcrEngine(place) as engine:
        PageReader(engine, PROFILES["P2A"], seconds=SECONDS).read(np.asarray(sheet))
