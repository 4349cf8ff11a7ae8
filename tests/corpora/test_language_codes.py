"""Which code of a file means which language."""

import pytest

from nmt.corpora.language_codes import fitting


@pytest.mark.parametrize(
    ("codes", "wanted", "found"),
    [
        (["en", "de"], "en", ["en"]),
        (["en-GB", "de"], "en", ["en-GB"]),
        (["EN_gb", "de"], "en-GB", ["EN_gb"]),
        (["en-GB", "en", "en-US"], "en", ["en"]),
        (["en-GB", "en-US"], "en", ["en-GB", "en-US"]),
        (["pt"], "pt-BR", ["pt"]),
        (["pt", "pt_BR"], "pt-BR", ["pt_BR"]),
        (["pt-PT"], "pt-BR", []),
        (["zh-Hans-CN"], "zh-Hans", ["zh-Hans-CN"]),
        (["eng", "e", "-", ""], "en", []),
        ([" en "], "en", [" en "]),
        ([], "en", []),
        (["en-" + "x" * 200], "en", []),
    ],
)
def test_equal_codes_come_before_codes_that_fit(codes, wanted, found):
    assert fitting(codes, wanted) == found
