"""Copies characters that the model does not know from the source into the translation.

A vocabulary encodes characters that its training text lacked as bytes or as unk. A model that has never seen these
pieces invents words for them. So the characters are taken out of the line before the search and put back into the
translation; a text without words is copied. A character that has a known one as another form is read as that.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nmt.config.data import LineStatistics
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError
from nmt.text.lines import one_line
from nmt.text.normalization import nfc
from nmt.text.sentences import FOOTNOTE, copied_ends
from nmt.translation.character_kinds import clusters
from nmt.translation.putting_back import put_back
from nmt.translation.results import TranslatedText
from nmt.translation.taking_out import Taken, is_copied, take_out

# A model has hardly learnt to copy bytes if a smaller share of its source pieces were bytes. With a character coverage
# of 0.9995, the share is about 50 times as large.
_MIN_BYTE_SHARE = 1e-4
_FORMS = ("<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>")
"""Forms that change nothing of a character's meaning: East Asian widths, and Arabic letters as they are joined."""


class UnknownCharacters:
    """Takes out and puts back the characters that a model does not know."""

    def __init__(
        self, vocab: VocabularyPair, lines: LineStatistics | None, copy: bool | None, language: str = ""
    ) -> None:
        """Choose which characters count as unknown.

        Args:
            lines: statistics of the model's training lines.
            copy: copy all characters without a piece, and texts without words (True), or none (False). None copies byte
                pieces only if the model has rarely seen them. A model that reads segmented text copies none: few
                characters are pieces of it.
            language: the language code of the lines.

        Raises:
            ConfigError: ``copy`` is True, and the model reads segmented text.
        """
        if vocab.source.is_segmented and copy is True:
            raise ConfigError(
                "copy_unknown: this model reads pieces separated by spaces, so characters cannot be copied. Leave it "
                "out."
            )
        self._vocab = vocab
        self._language = language
        seen = lines.source.byte_pieces if lines is not None else None
        knows_bytes = copy is None and seen is not None and seen > _MIN_BYTE_SHARE
        self._ids: frozenset[int] = frozenset()
        self.takes_out = copy is not False and not vocab.source.is_segmented
        """Whether characters may be taken out at all."""
        if self.takes_out:
            self._ids = frozenset([Vocabulary.UNK]) | (frozenset() if knows_bytes else vocab.source.byte_ids)

    def are_in(self, ids: Sequence[int]) -> bool:
        """Whether pieces stand for unknown characters."""
        return not self._ids.isdisjoint(ids)

    def is_copied(self, text: str) -> bool:
        """Whether a text is copied because it needs no translation, apart from a language tag."""
        return self.takes_out and bool(text.strip()) and is_copied(self._vocab.source.split_tag(text)[1])

    def concern(self, text: str, ids: Sequence[int]) -> bool:
        """Whether something may be taken out of a text with these pieces."""
        if self.are_in(ids) or not self.takes_out:
            return self.takes_out
        rest = self._vocab.source.split_tag(text)[1].strip()
        is_whole = copied_ends(rest, self._language) == (0, len(rest))
        return self.is_copied(text) or not is_whole or FOOTNOTE.search(rest) is not None

    def take_out(self, texts: Sequence[str], hidden: frozenset[str] = frozenset()) -> list[Taken | None]:
        """Take the unknown characters out of texts. None for a text with words and without any.

        Args:
            hidden: further characters that count as unknown.
        """
        divided = [self._vocab.source.split_tag(text) for text in texts]
        lines = [rest.lstrip() if tag else rest for tag, rest in divided]
        # A call of SentencePiece takes a quarter of a millisecond, and there may be thousands of texts.
        characters = list(dict.fromkeys(itertools.chain.from_iterable((*clusters(line), *line) for line in lines)))
        encoded = self._vocab.source.encode(characters)
        unknown = {cluster for cluster, ids in zip(characters, encoded, strict=True) if self.are_in(ids)}
        unknown.update(cluster for cluster in characters if not hidden.isdisjoint(cluster))
        respelt = self._respelt(unknown)
        known = [_with_forms(line, respelt) for line in lines] if respelt else lines
        taken = [
            take_out(text, unknown.__contains__, self._language) or (None if text == line else Taken(text, "", (), ""))
            for text, line in zip(known, lines, strict=True)
        ]
        return [
            replace(one, tag=tag) if one is not None else None for one, (tag, _) in zip(taken, divided, strict=True)
        ]

    def _respelt(self, unknown: Iterable[str]) -> dict[str, str]:
        """Unknown characters that differ in form alone from others that are known, such as ２ from 2, with these."""
        forms = {
            cluster: unicodedata.normalize("NFKC", cluster)
            for cluster in unknown
            if unicodedata.decomposition(cluster[0]).startswith(_FORMS)
        }
        encoded = self._vocab.source.encode(list(forms.values())) if forms else []
        return {
            cluster: form for (cluster, form), ids in zip(forms.items(), encoded, strict=True) if not self.are_in(ids)
        }

    def put_back(self, taken: Taken, source_ids: Sequence[int], candidate: TranslatedText) -> TranslatedText:
        """Put the unknown characters into the text of a translation. Its pieces do not change.

        Args:
            source_ids: the pieces of ``taken.source``.
            candidate: the translation, with its alignment if there are inner runs.
        """
        # No run belongs to the pieces of a tag or of the language.
        before = 1 if taken.tag else len(self._vocab.source.before)
        source_ends = _ends(self._vocab.source, source_ids[before:])
        target_ends = _ends(self._vocab.target, self._vocab.target.ids(candidate.pieces))
        alignment = [None if i is None or i < before else i - before for i in candidate.alignment or ()]
        text = put_back(taken, candidate.text, source_ends, target_ends, alignment)
        return replace(candidate, text=one_line(text))


def _ends(vocab: Vocabulary, ids: Sequence[int]) -> list[int]:
    """The end of each piece in the decoded text, in characters."""
    return [len(text) for text in vocab.decode([ids[: count + 1] for count in range(len(ids))])]


def _with_forms(line: str, respelt: Mapping[str, str]) -> str:
    text = "".join(respelt.get(each, each) for each in clusters(line))
    return line if text == line else nfc(text)  # no line depends on those beside it
