"""Pages with known text: Korean, English and mixed, then turned, tilted, shadowed, noisy, in columns, as a receipt.

The same kind and seed give the same page, pixel for pixel, where the fonts are the same (Debian: fonts-nanum).
"""

import io
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rapidfuzz.distance import Levenshtein

FONTS: Final = Path("/usr/share/fonts/truetype/nanum")
FACES: Final = ("NanumGothic", "NanumMyeongjo", "NanumBarunGothic")
DPI: Final = 200
PAGE_PIXELS: Final = (round(8.27 * DPI), round(11.69 * DPI))

ENGLISH: Final = (
    "The reservation is held for one hour and is settled when the worker has finished the job.",
    "A charge may never exceed the amount that was reserved, and a refund returns the whole of it.",
    "Invoice No. {number} was issued on {day} March 2024 for ${amount} and is payable within 30 days.",
    "Please quote the reference above in every message you send us.",
    "Late payments carry interest at 1.5% per month, counted from the day after the due date.",
    "The committee met on {day} October and approved the budget without further discussion.",
    "Goods remain the property of the seller until the invoice has been paid in full.",
    "Visitors are asked to leave their coats and umbrellas at the entrance.",
    "Our office is open from Monday to Friday between 9:00 and 17:30, except on public holidays.",
    "The laboratory measured {number} samples and rejected only those that were visibly damaged.",
    "Every passenger must carry a valid ticket and show it on request.",
    "Rainfall in the northern valley was twice the average of the last ten years.",
)
KOREAN: Final = (
    "예약 금액은 한 시간 동안 유지되며 작업이 끝나면 정산됩니다.",
    "청구 금액은 예약한 금액을 절대로 넘을 수 없으며 환불할 때에는 전액이 고객의 예산으로 되돌아갑니다.",
    "청구서 번호 제{number}호는 2024년 3월 {day}일에 발행되었고 금액은 {amount}원입니다.",
    "문의하실 때에는 위의 번호를 반드시 적어 주시기 바랍니다.",
    "회의는 매주 화요일 오전에 본관 3층 대회의실에서 열립니다.",
    "이 제품은 직사광선을 피하여 서늘하고 건조한 곳에 보관하십시오.",
    "도서관은 평일 오전 9시부터 오후 10시까지 이용할 수 있습니다.",
    "계약 기간이 끝나기 한 달 전까지 서면으로 통지하지 않으면 같은 조건으로 연장됩니다.",
    "봄에는 산과 들에 꽃이 피고 가을에는 단풍이 아름답게 물듭니다.",
    "신청서는 {day}일까지 우편이나 방문으로 제출해야 하며 제출한 서류는 돌려드리지 않습니다.",
    "환자의 상태가 나빠지면 즉시 담당 의사에게 알려야 합니다.",
    "북쪽 지역에는 오늘 밤부터 내일 아침까지 많은 눈이 내리겠습니다.",
)
MIXED: Final = (
    "DPP Platform 서비스의 API 응답 시간은 평균 {day}0ms 이하로 유지됩니다.",
    "사용자는 요청 헤더에 Content-Type 값을 포함해야 하며 누락 시 400 오류가 반환됩니다.",
    "Worker 프로세스는 Queue에서 메시지를 읽고 결과를 Storage에 저장합니다.",
    "본 계약은 Master Service Agreement 제{day}조에 따라 해지할 수 있습니다.",
    "담당자는 Kim Minsu 과장이며 연락처는 02-{number}입니다.",
    "세미나 주제는 Machine Learning 입문이고 장소는 COEX Hall B입니다.",
    "배송은 FedEx 또는 DHL을 이용하며 보통 3일에서 5일이 걸립니다.",
    "Windows와 Linux에서 모두 설치할 수 있으며 메모리는 8GB 이상을 권장합니다.",
)
GOODS: Final = (
    *("아메리카노 2잔", "카페라떼 1잔", "노트 A5", "볼펜 0.5mm", "우유 1L", "식빵", "생수 500ml", "김밥 한 줄"),
    *("사과 3개", "치약", "건전지 AA", "라면 5봉", "두부", "휴지 30롤", "종이컵", "물티슈"),
)
SHOPS: Final = ("한빛문구 강남점", "푸른마트 종로점", "별다방 시청역점", "우리약국 본점")

Gray = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A page and what is written on it, in reading order."""

    pixels: Gray
    truth: str

    def png(self) -> bytes:
        return encoded(self, "PNG")


def encoded(sample: Sample, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(sample.pixels).save(buffer, form, **options)
    return buffer.getvalue()


def character_error_rate(truth: str, read: str) -> float:
    """Edits for each character of the truth. Spaces do not count, nor do marks of doubt, which no page has."""
    wanted, found = _bare(truth), _bare(re.sub(r"\(\?\)|\[□\]", "", read))
    return Levenshtein.distance(wanted, found) / len(wanted)


def _bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


def font(face: str, pixels: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONTS / f"{face}.ttf", pixels)


def paragraphs(dice: random.Random, sentences: Sequence[str], *, count: int, each: int) -> list[str]:
    def filled(sentence: str) -> str:
        number, amount = dice.randrange(1_000, 9_999), f"{dice.randrange(1, 999)},{dice.randrange(100, 999)}"
        return sentence.format(number=number, amount=amount, day=dice.randrange(10, 29))

    return [" ".join(filled(one) for one in dice.sample(sentences, each)) for _ in range(count)]


def _wrapped(text: str, face: ImageFont.FreeTypeFont, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if face.getlength(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line]


def printed(columns: Sequence[Sequence[str]], *, face: str, points: float, title: str = "", fine: str = "") -> Sample:
    """Black on white, A4: a title over it all, the columns side by side, and a line of fine print at the foot."""
    width, height = PAGE_PIXELS
    page = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(page)
    margin, gap = round(0.8 * DPI), round(0.4 * DPI)
    pixels = round(points * DPI / 72)
    top, written = margin, []
    if title:
        draw.text((margin, top), title, font=font(face, pixels * 2), fill=0)
        top, written = top + pixels * 4, [title]
    column_width = (width - 2 * margin - gap * (len(columns) - 1)) // len(columns)
    for number, texts in enumerate(columns):
        y = top
        for text in texts:
            for line in _wrapped(text, font(face, pixels), column_width):
                draw.text((margin + number * (column_width + gap), y), line, font=font(face, pixels), fill=0)
                y += round(pixels * 1.5)
                written.append(line)
            y += pixels
    if fine:
        draw.text((margin, height - margin), fine, font=font(face, round(6 * DPI / 72)), fill=0)
        written.append(fine)
    return Sample(pixels=np.asarray(page), truth="\n".join(written))


# The kinds.


def _plain(dice: random.Random, sentences: Sequence[str], count: int) -> Sample:
    texts = paragraphs(dice, sentences, count=count, each=4)
    return printed([texts], face=dice.choice(FACES), points=dice.choice((10, 11, 12)))


def korean(dice: random.Random, count: int) -> Sample:
    return _plain(dice, KOREAN, count)


def english(dice: random.Random, count: int) -> Sample:
    return _plain(dice, ENGLISH, count)


def mixed(dice: random.Random, count: int) -> Sample:
    return _plain(dice, MIXED + KOREAN[:2] + ENGLISH[:2], count)


def _any(dice: random.Random, count: int) -> Sample:
    return dice.choice((korean, english, mixed))(dice, count)


def rotated(dice: random.Random, count: int) -> Sample:
    upright = _any(dice, count)
    return replace(upright, pixels=np.ascontiguousarray(np.rot90(upright.pixels, dice.choice((1, 2, 3)))))


def skewed(dice: random.Random, count: int) -> Sample:
    straight = _any(dice, count)
    angle = dice.choice((-1, 1)) * dice.uniform(1, 5)
    turned = Image.fromarray(straight.pixels).rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    return replace(straight, pixels=np.asarray(turned))


def shadowed(dice: random.Random, count: int) -> Sample:
    """A lamp from one side, and the edge of a hand or a telephone over a part of the page."""
    bright = _any(dice, count)
    height, width = bright.pixels.shape
    across = np.linspace(dice.uniform(0.3, 0.5), 1, width)[:: dice.choice((-1, 1))]
    light = across[None, :] * np.linspace(dice.uniform(0.6, 0.8), 1, height)[:, None]
    edge = round(height * dice.uniform(0.1, 0.25))
    soft = np.clip((np.arange(height) - edge) / 60, 0, 1)[:, None]
    light = light * (0.6 + 0.4 * soft)
    return replace(bright, pixels=(bright.pixels * light * 0.95).clip(0, 255).astype(np.uint8))


def noisy(dice: random.Random, count: int) -> Sample:
    """A sensor's grain, then dust: single pixels black or white."""
    clean = _any(dice, count)
    rays = np.random.default_rng(dice.randrange(1 << 32))
    grain = clean.pixels + rays.normal(0, dice.uniform(15, 35), clean.pixels.shape)
    pixels = grain.clip(0, 255).astype(np.uint8)
    dust = rays.random(pixels.shape)
    pixels[dust < 0.01] = 0
    pixels[dust > 0.99] = 255
    return replace(clean, pixels=pixels)


def two_columns(dice: random.Random, count: int) -> Sample:
    sentences = dice.choice((KOREAN, ENGLISH, MIXED))
    columns = [paragraphs(dice, sentences, count=count - 1, each=4) for _ in range(2)]
    return printed(columns, face=dice.choice(FACES), points=dice.choice((9, 10)))


def receipt(dice: random.Random, count: int) -> Sample:
    """Names to the left, amounts to the right, and wide gaps between."""
    del count
    goods = [(one, f"{dice.randrange(1, 30)},{dice.choice((0, 5))}00") for one in dice.sample(GOODS, 5)]
    digits = dice.randrange(10_000, 99_999)
    rows = [
        ("영수증", ""),
        (f"상호: {dice.choice(SHOPS)}", ""),
        ("사업자번호", f"{dice.randrange(100, 999)}-{dice.randrange(10, 99)}-{digits}"),
        *goods,
        ("합계", f"{dice.randrange(10, 99)},{dice.randrange(1, 9)}00"),
        ("부가세", f"{dice.randrange(1, 9)},{dice.randrange(100, 999)}"),
        ("카드 승인번호", f"{digits}{dice.randrange(100, 999)}"),
        (f"2024-03-{dice.randrange(10, 29)} 12:41", ""),
    ]
    page = Image.new("L", (640, 60 + 70 * len(rows)), 250)
    draw, face = ImageDraw.Draw(page), font("NanumGothic", 26)
    for number, (left, right) in enumerate(rows):
        y = 40 + 70 * number
        draw.text((40, y), left, font=face, fill=30)
        draw.text((600 - face.getlength(right), y), right, font=face, fill=30)
    return Sample(pixels=np.asarray(page), truth="\n".join(f"{left} {right}".strip() for left, right in rows))


def blank(dice: random.Random, count: int) -> Sample:
    del dice, count
    return Sample(pixels=np.full(PAGE_PIXELS[::-1], 255, np.uint8), truth="")


KINDS: Final[dict[str, Callable[[random.Random, int], Sample]]] = {
    kind.__name__: kind
    for kind in (korean, english, mixed, rotated, skewed, shadowed, noisy, two_columns, receipt, blank)
}


def sample(kind: str, seed: int, *, count: int = 4) -> Sample:
    """A page of so many paragraphs, of a kind."""
    return KINDS[kind](random.Random(f"{kind} {seed}"), count)  # noqa: S311  dice for pages, not for secrets
