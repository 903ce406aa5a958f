"""Texts as tokens.

Korean words carry their particles ("서울은", "서울이"), so that whole words of two right answers rarely meet. Where
nothing else is asked for, each syllable of Hangul and each character of Han and Kana is a token of its own here, and
every other script goes by words: no model, the same result on every machine, and on English what the reference
libraries do. All texts are composed first (NFC), since one syllable may be written as three letters.
"""

import re
import unicodedata
from typing import Final, Literal

By = Literal["auto", "words", "characters"]

_SYLLABLES: Final = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(r"[^\W_]+")
_WORD_OR_SYLLABLE: Final = re.compile(rf"[{_SYLLABLES}]|[^\W_{_SYLLABLES}]+")
_SYLLABLE: Final = re.compile(rf"([{_SYLLABLES}])")
_MTEVAL: Final = (
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def composed_text(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def of_letters(text: str, by: By) -> list[str]:
    """Without punctuation: for overlap and common subsequence."""
    text = composed_text(text)
    if by == "characters":
        return [character for character in text if character.isalnum()]
    return (_WORD if by == "words" else _WORD_OR_SYLLABLE).findall(text)


def of_mteval(text: str, by: By) -> list[str]:
    """With punctuation, by the rules of mteval-v13a that BLEU is compared by."""
    text = composed_text(text)
    if by == "characters":
        return list("".join(text.split()))
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = f" {text} "
    for pattern, spaced in _MTEVAL:
        text = pattern.sub(spaced, text)
    return (text if by == "words" else _SYLLABLE.sub(r" \1 ", text)).split()
