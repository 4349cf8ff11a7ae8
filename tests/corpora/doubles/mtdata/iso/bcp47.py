"""Language codes; the double knows two-letter forms of few."""

from dataclasses import dataclass

_THREE = {"en": "eng", "de": "deu", "fr": "fra"}


@dataclass(frozen=True)
class BCP47Tag:
    lang: str

    def __str__(self):
        return self.lang

    @classmethod
    def check_compat_swap(cls, pair1, pair2, fail_on_incompat=False):
        if pair1 == pair2:
            return True, False
        return (True, True) if pair1 == pair2[::-1] else (False, False)


def bcp47(tag: str) -> BCP47Tag:
    return BCP47Tag(_THREE.get(tag, tag))
