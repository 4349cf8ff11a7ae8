"""Splitting a line into sentences, in many languages.

Wikimedia's ``sentencex`` proposes the ends of sentences. It is maintained, has about 300 languages and their
abbreviations, keeps every character, needs no model, and reads 300,000 captions per second. The Moses splitter is the
reference in the field. Two of its rules overrule a proposal: its lists (in ``sacremoses``) of words that end in a full
stop inside a sentence (``Dr.``, French ``M.``, German ``3. Oktober``), and that no sentence begins in lower case.
The Moses splitter itself (``sentence-splitter`` in Python) is not used: it reads 5,000 lines per second, squeezes white
space, and has neither Chinese nor Hindi. ``pysbd`` is slower still.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence

import sentencex

from nmt.text.languages import primary_language

# As of version 1.0.32, the library fails on no-break spaces in some languages.
_OTHER_WHITE_SPACE = re.compile(r"[^\S ]")
_NUMERIC_ONLY = "#NUMERIC_ONLY#"
_OPENING = "\"'“”„«»‘’([{¿¡"
_FIRST_CHARACTER = re.compile(r"\w")
# The label of an item: a number, a letter or a Roman numeral below 40, with a mark behind it or in brackets.
_ROMAN = "(?=[ivxIVX])[xX]{0,3}(?:i[xv]|I[XV]|v?i{0,3}|V?I{0,3})"
_LABEL = (
    r"(?:[•‣◦▪*–—-]\s+)?(?:(?:N[or]\.|N[°º]|[§№#])\s*)?[(（\[［]?"
    rf"(?:\d+(?:[.．]\d+)*|[^\W\d_]|{_ROMAN})[.．:：)）\]］、]{{1,2}}"
)
_TAGS_FIRST = re.compile(r"(?:\s*<[^<>]{1,60}>)*")
LABEL_FIRST = re.compile(rf"\s*{_LABEL}\s*")
_LABEL_LAST = re.compile(
    rf"(?:(?<=[.!?…؟۔])[\"'”’»)]*\s+|(?<=[。！？।])[”’」』）]*\s*|(?<=[:：])\s*(?=[(\[]?[1aAiI][.)\]]))({_LABEL}\s*)\Z"
)
# Abbreviations before numbers in languages of Latin letters, beside those of Moses' lists: "Fig. 3." has one end.
_BEFORE_NUMBER = frozenset(
    {"abb", "abs", "anm", "app", "art", "bd", "cap", "ch", "chap", "eq", "fig", "figs", "kap", "no", "nos", "nr", "num"}
    | {"núm", "p", "par", "para", "pp", "pt", "pág", "ref", "refs", "s", "sec", "sect", "tab", "vol", "vols"}
)
# Longer than a label that is the end of a text.
_LONGEST_LABEL = 40
# The library does not cut an item of a list that begins like this.
_LIST_ITEM = re.compile(r"(?:\s*(?:[•◦▪]|\(?\w{1,9}\)))+")
# What is the same in all languages before a sentence: marks, but no currencies, quotation marks or brackets; and a
# number without letters, a letter or a Roman numeral, with a mark behind it.
_SMILEY = r"[:;][-'o^]?[()\[\]DPp/|*]"
# Quotation marks, also those of tokenised text, and brackets: languages write them differently.
_PAIRED = r"\"'`´“”„«»‘’‹›()\[\]{}「」『』（）《》"
_MARKS = re.compile(rf"[^\w\s$€£¥₹%‰&°@¿¡{_PAIRED}]+|{_SMILEY}")
_CLOSING = re.compile(rf"[\s{_PAIRED}]+")
_DASH_FIRST = re.compile(r"[-–—/]\s")
_LETTER_LABEL = re.compile(rf"[(\[]?(?:[A-Za-z]|{_ROMAN})[.:)\]]{{1,2}}")
# A number with letters or parts and a mark behind it, such as B2), 1.a) and Q1.
_MIXED_LABEL = re.compile(r"[(\[]?[A-Za-z]{0,2}\d{1,4}(?:[.-]?[A-Za-z]|(?:[.-]\d{1,3})*)(?:[.:)\]]{1,2}[-–—]?|[/-])")
_SIGNED_NUMBER = re.compile(r"\s*[#§№]\s*\d+(?:\.\d+)*[.:)]?(?!\S)\s*")
_LABEL_ENDS = tuple(".:)]!?．：）］")
# Other letters with a full stop before text are initials or abbreviations.
_LABEL_LETTERS = frozenset("abcdefghivxABCDEFGHIVX")
_WORD = re.compile(r"\s*\S+\s*")
_END = re.compile(r"[.!?…؟۔][\"'”’»)\]]*\s+(?=\S)|[。！？।][”’」』）】]*\s*(?=\S)")
# What refers to a footnote: raised figures after a mark or a word (but not that of m²), or a number in brackets.
_FIGURE = "[⁰¹²³⁴-⁹]"
FOOTNOTE = re.compile(
    r"(?=[⁰¹²³⁴-⁹\[])"  # says again what it begins with: this is three times as fast as to look back everywhere
    rf"(?:(?:(?<=[^\W\d_⁰¹²³⁴-⁹]{{3}})|(?<=[^\w\s])){_FIGURE}+(?!\w)|\[\d{{1,3}}\])"
)
_AFTER_END = re.compile(rf"(?:(?<=\S)(?:{_FIGURE}+|\[\d{{1,3}}\]|</[^<>]{{1,60}}>)+)?\s*")
# Ends that the library does not propose: in brackets and after an ellipsis, as the Moses splitter does, before the
# plain figure of a footnote, and after the full stops of Khmer, but not those of its "and so on".
_OTHER_END = re.compile(
    r"(?=[.!?…])(?:(?:[.!?](?=[)\]}])|…)[\"'”’»)\]}]*|(?<=[^\W\d_A-Z]{3})[.!?]\d{1,2})\s+|[។៕](?!ល។)\s*(?=[^\s។៕])"
)
# Text in quotation marks or brackets, which the library leaves whole.
_QUOTED = re.compile(r"[\"“„«(]([^\"“”„«»()]++)[\"”“»)]")
# What a sentence cannot begin with; a smiley is none of it.
_CONTINUES = re.compile(rf"\s*(?!{_SMILEY})[,;:，、；：)）\]］」』»]")
# What continues a sentence after a quotation: Japanese particles (but not words that begin like them), Chinese words of
# speech behind a short subject, and Korean endings.
_AFTER_QUOTATION = re.compile(
    r"と(?!ても|ころ|きど|にかく|もかく|もだち|うとう)|って|など|なんて|から|まで|より|だ(?!から|が)|です|を|の(?!ち)|が(?!ん)"
    r"|は(?!い|じめ|やく)|も(?!う|し|ちろん)|に(?!わ)|で(?!も|は|すから)|へ(?!え)|や(?!っ|が|は)|か[。、？]"
    r"|的(?!确|確|士)|\w{0,6}[说說道问問喊叫答嚷][，：。！？,:]|이?라[고는며면]|\s*하[고며는]|[을를은는과와의]\s"
)
_QUOTATION_ENDS = "\"'”’»」』】》〉)）"
# The library takes quadratic time on text with quotation marks that are never closed.
_WINDOW = 4_096
# Maximum length of a word in the lists of Moses, with quotation marks and brackets before it.
_LONGEST_PREFIX = 64


def sentences(line: str, language: str) -> list[str]:
    """Split a line into its sentences.

    The joined sentences are the line: white space between two sentences is at the end of the first. A line without text
    is one sentence.

    Args:
        language: code, with or without a region. For unknown codes, rules that suit most languages apply.
    """
    language = primary_language(language)
    proposed = list(_proposed_ends(_OTHER_WHITE_SPACE.sub(" ", line), language or "en"))
    if len(proposed) <= 1:
        return [line]
    may_begin_in_lower_case = line == line.lower()
    begins = [0]
    is_complete, text_end = False, 0  # Facts about the last sentence so far.
    for place, end in _fragments(line, proposed, language):
        following = line[place:end]
        has_sentence = _has_sentence(following)
        if is_complete and has_sentence:
            label = LABEL_FIRST.match(following)
            tags = _TAGS_FIRST.match(following, label.end() if label else 0)
            first = _FIRST_CHARACTER.search(following, tags.end() if tags else 0)
            is_lower = first is not None and first[0].islower() and not following[first.end() :][:1].isupper()  # eBay
            if (may_begin_in_lower_case or not is_lower) and _ends(line, begins[-1], text_end, following, language):
                begins.append(place)
        is_complete = is_complete or has_sentence
        if text := following.rstrip():
            text_end = place + len(text)
    return [line[begin:end] for begin, end in itertools.pairwise([*begins, len(line)])]


def has_words(text: str) -> bool:
    """Whether a text has a letter. Without one it is numbers, punctuation or symbols, which need no translation."""
    return any(map(str.isalpha, text))


def copied_ends(sentence: str, language: str) -> tuple[int, int]:
    """Where the text that needs translation begins and ends in a sentence.

    Labels and marks before it are the same in all languages, and so is what has no letters behind it. A number that is
    a word of the sentence belongs to it, as in "2 men sit." or a German ordinal.
    """
    language = primary_language(language)
    signed = _SIGNED_NUMBER.match(sentence)
    begin = signed.end() if signed else 0
    for word in _WORD.finditer(sentence, begin):
        following = sentence[word.end() : word.end() + _LONGEST_PREFIX]
        if not _is_same_label(word[0].strip(), following, language):
            break
        begin = word.end()
    last = next((place for place in range(len(sentence), begin, -1) if sentence[place - 1].isalpha()), begin)
    for end in _END.finditer(sentence, last):
        text_end = end.start() + len(end[0].rstrip())
        following = sentence[end.end() : end.end() + _LONGEST_PREFIX]
        if not _CLOSING.fullmatch(following) and _ends(sentence, begin, text_end, following, language):
            return begin, end.end()
    return begin, len(sentence)


def _is_same_label(word: str, following: str, language: str) -> bool:
    if word.isalpha():  # a label has a mark, or is a number
        return False
    if _MARKS.fullmatch(word) or (word.isdigit() and _DASH_FIRST.match(following)):
        return True
    label = word.strip("*_")
    is_number = label.endswith(_LABEL_ENDS) and not has_words(label) and any(map(str.isnumeric, label))
    if not is_number and not _LETTER_LABEL.fullmatch(label) and not _MIXED_LABEL.fullmatch(label):
        return False
    name = label.removesuffix(".")
    if name == label or not following:
        return True
    if len(name) == 1 and name.isalpha():
        return name in _LABEL_LETTERS and following[0].isalpha() and following[1:2] != "."
    is_ordinal = nonbreaking_prefixes(language).get(name) is False
    return not is_ordinal and not (following[0].islower() and following != following.lower())


def _has_sentence(text: str) -> bool:
    return has_words(text) and not LABEL_FIRST.fullmatch(text)


def _fragments(line: str, proposed: Sequence[int], language: str) -> Iterator[tuple[int, int]]:
    """Begin and end of the texts between the proposed ends. A label, or a number alone, is in one with what follows."""
    begin = 0
    behind = (_AFTER_END.match(line, end) for end in proposed)
    ends = itertools.accumulate((found.end() for found in behind if found), max)
    for place, end in itertools.pairwise([0, *ends]):
        label = _LABEL_LAST.search(line, max(place, end - _LONGEST_LABEL), end)
        if label and label.start(1) > begin and _ends(line, begin, label.start(), label[1], language):
            yield begin, label.start(1)
            begin = label.start(1)
            continue
        is_symbols = begin == place and not _FIRST_CHARACTER.search(line, begin, end)
        if is_symbols or _has_sentence(line[place:end]):
            yield begin, end
            begin = end
    if begin < len(line):
        yield begin, len(line)


def _proposed_ends(text: str, language: str) -> Iterator[int]:
    """The ends of sentences that the library proposes, window by window; the last is the end of the text.

    A window begins with a sentence, unless a sentence is longer than half a window.
    """
    begin = 0
    while True:
        window = text[begin : begin + _WINDOW]
        ends = list(itertools.accumulate(map(len, _segment(language, window)), initial=begin))[1:]
        if begin + len(window) == len(text):
            yield from ends
            return
        # The window may have cut the last sentence.
        complete = ends[:-1]
        yield from complete
        begin = complete[-1] if complete and complete[-1] - begin >= _WINDOW // 2 else begin + len(window)


def _segment(language: str, text: str) -> Iterator[str]:
    for piece in sentencex.segment(language, text):
        label = _LIST_ITEM.match(piece)
        first, *others = sentencex.segment(language, piece[label.end() :]) or [""] if label else [piece]
        for text in ((label[0] if label else "") + first, *others):
            begin = 0
            for text_end, end in sorted(_further_ends(text, language)):
                following = _FIRST_CHARACTER.search(text, end)
                may_begin = following is not None and (following[0].isupper() or text[text_end - 1] in "។៕")
                if may_begin and _ends(text, begin, text_end, text[end:], language):
                    yield text[begin:end]
                    begin = end
            yield text[begin:]


def _further_ends(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Possible ends of sentences that the library does not propose: that of the sentence, and of the space behind."""
    for found in _OTHER_END.finditer(text):
        yield found.start() + 1, found.end()
    for quoted in _QUOTED.finditer(text):
        _, *inner, _ = itertools.accumulate(map(len, sentencex.segment(language, quoted[1])), initial=quoted.start(1))
        for end in inner:
            if text[end - 1].isspace():
                yield len(text[:end].rstrip()), end


def _ends(line: str, begin: int, end: int, following: str, language: str) -> bool:
    """Whether a sentence ends here: it does not continue, and its last full stop is not part of an abbreviation.

    Args:
        begin, end: the sentence in the line, without the white space after it.
        following: the text after it.
    """
    if line[end - 1] == "၊":  # a comma of Burmese, which the library takes for a full stop
        return False
    if _CONTINUES.match(following) or (line[end - 1] in _QUOTATION_ENDS and _AFTER_QUOTATION.match(following)):
        return False
    if line[end - 1] != ".":
        return True
    last_words = line[max(begin, end - 2 - _LONGEST_PREFIX) : end - 1].rsplit(maxsplit=1)
    if not last_words or len(last_words[-1]) > _LONGEST_PREFIX:
        return True
    word = last_words[-1].lstrip(_OPENING)
    is_numeric_only = nonbreaking_prefixes(language).get(word, word.lower() in _BEFORE_NUMBER or None)
    first = _FIRST_CHARACTER.search(following)
    return is_numeric_only is None or (is_numeric_only and not (first and first[0].isdigit()))


@functools.cache
def nonbreaking_prefixes(language: str) -> dict[str, bool]:
    """The words of Moses' list after which a full stop ends no sentence; True if this holds only before a number."""
    from sacremoses.corpus import NonbreakingPrefixes

    lists = NonbreakingPrefixes()
    if language not in lists.available_langs:  # The library would return the English list.
        return {}
    return {word.removesuffix(_NUMERIC_ONLY).strip(): _NUMERIC_ONLY in word for word in lists.words(language)}
