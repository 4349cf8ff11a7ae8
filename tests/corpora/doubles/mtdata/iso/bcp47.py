"""Language codes; the double knows few."""

from dataclasses import dataclass

_THREE = {"en": "eng", "de": "deu", "fr": "fra", "cs": "ces", "mul": "mul"}


@dataclass(frozen=True)
class BCP47Tag:
    lang: str

    def __str__(self):
        return self.lang

    @classmethod
    def check_compat_swap(cls, pair1, pair2, fail_on_incompat=False):
        assert {tag.lang for tag in pair1} != {"mul"}, "Multilingual on both side is not supported"
        if pair1 == pair2:
            return True, False
        return (True, True) if pair1 == pair2[::-1] else (False, False)


def bcp47(tag: str) -> BCP47Tag:
    if tag not in {*_THREE, *_THREE.values()}:
        raise ValueError(f"Unable to recognize {tag}; Unknown language")
    return BCP47Tag(_THREE.get(tag, tag))
