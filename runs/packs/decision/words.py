"""The words of a question that a text is searched for, and how each is recognised in it.

A Korean word is what remains without its particle or ending, and is found by its pairs of syllables, since Korean joins
words as it likes. A word in letters is found by its stem and the endings that may follow.
"""

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(r"[가-힣]+|[ぁ-ヿ一-鿿]+|[^\W_가-힣ぁ-ヿ一-鿿]+(?:[.'-][^\W_가-힣ぁ-ヿ一-鿿]+)*")
_STOP: Final = frozenset(  # what questions are made of
    """
    a an the is are was were be been being am of to in on at for and or not it its this that these those by with
    as from what which who whom whose when where why how do does did done can could may might must will would
    shall should much many long often far old i you we they he she me us them my your our their there here any
    some if than then so about into over under per have has had get gets got please tell say does anyone anything
    someone something whether last lasts
    """.split()  # noqa: SIM905  a hundred quotes read worse
)
_KOREAN_STOP: Final = frozenset(  # what questions are made of
    """
    무엇 얼마 얼마나 언제 어디 어느 누구 누가 며칠 무슨 어떤 어떻게 왜 몇 있 없 하 되 이 그 저 것 수 때 및 또는
    그리고 있나 있습니까 있나요 있는가 입니까 인가요 인가 합니까 하나요 됩니까 되나요 오래 동안 알려 주세요
    알려주세요 말해 은 는 이 가 을 를 의 에 와 과 로 도 만 무엇인가 무엇인가요 무엇입니까 언제인가 언제인가요
    언제입니까 얼마인가 얼마인가요 얼마입니까 어디인가 어디인가요 어디입니까 누구인가 누구인가요 누구입니까
    """.split()  # noqa: SIM905  a hundred quotes read worse
)
_ENDING: Final = re.compile(
    r"(?:했습니까|하였습니까|하였나요|되었습니까|되었나요|습니까|입니까|합니까|됩니까|합니다|됩니다|습니다|입니다|인가요|하나요|되나요|"
    r"했나요|됐나요|나요|까요|는가|은가|인가|하는지|되는지|는지|은지|인지|해야|하려면|하면|되면|으면|려면|이란|이라고|에서는|에게는|으로는|"
    r"에서|에게|으로|까지|부터|마다|보다|처럼|이나|이며|이고|하고|하는|되는|하여|해서|되어|한다|된다|이다|들은|들의|들이|들을|"
    r"은|는|이|가|을|를|의|에|와|과|로|도|만|란|들|할|될|한|된|하|되)$"
)
_SUFFIXES: Final = ("ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "s")
_STEM_LEAST: Final = 3
WORDS_MAX: Final = 64
_ENDINGS: Final = r"(?:e|y|i)?(?:s|d|ed|es|ing|ings|r|rs|er|ers|ly|al|or|ors|ion|ions|ation|ations|ment|ments)?"


@dataclass(frozen=True)
class AskedWord:
    """One word asked for: found as far as its parts are."""

    parts: tuple[str, ...]
    is_stem: bool


def asked_words(question: str) -> list[AskedWord]:
    """The words the question asks about, each once."""
    found: dict[str, AskedWord] = {}
    for token in _TOKEN.findall(question):
        word = _korean(token) if "가" <= token[0] <= "힣" else _of_letters(token)
        if word is not None:
            found.setdefault("/".join(word.parts), word)
    return list(found.values())[:WORDS_MAX]


def word_pattern(words: list[AskedWord]) -> re.Pattern[str] | None:
    """Finds every stem among `words`, each with its endings; the group is the stem."""
    stems = sorted({word.parts[0] for word in words if word.is_stem}, key=len, reverse=True)
    if not stems:
        return None
    return re.compile(rf"\b({'|'.join(map(re.escape, stems))})\w?{_ENDINGS}\b", re.IGNORECASE)


def _korean(token: str) -> AskedWord | None:
    if token in _KOREAN_STOP:
        return None
    word = _ENDING.sub("", token) if len(token) > 1 else token
    if len(word) > 2:
        word = _ENDING.sub("", word)  # 기간은요, 보관되는지: an ending on an ending
    if not word or word in _KOREAN_STOP:
        return None
    return AskedWord(_pairs(word), is_stem=False)


def _of_letters(token: str) -> AskedWord | None:
    word = token.lower()
    if word in _STOP:
        return None
    if re.search(r"[ぁ-ヿ一-鿿]", word):
        return AskedWord(_pairs(word), is_stem=False)
    return AskedWord((word_stem(word),), is_stem=True)


def _pairs(word: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word[at : at + 2] for at in range(len(word) - 1))) or (word,)


def word_stem(word: str) -> str:
    """The common beginning of an English word's forms: policies and policy, stopped and stop, stored and storage."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _STEM_LEAST and not word.endswith("ss"):
            word = word[: -len(suffix)]
            if len(word) > _STEM_LEAST and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > _STEM_LEAST and word[-1] in "eyi" else word
