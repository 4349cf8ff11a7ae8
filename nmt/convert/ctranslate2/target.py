"""CTranslate2 as a format to export to."""

from __future__ import annotations

from nmt.convert.ctranslate2.engine import TOOLKIT, CTranslate2Engine
from nmt.convert.ctranslate2.files import HOLDS, check_ctranslate2_files
from nmt.convert.ctranslate2.software import ctranslate2_sides
from nmt.convert.ctranslate2.usage import ctranslate2_remarks, ctranslate2_usage
from nmt.convert.ctranslate2.writing import QUANTIZATIONS, write_ctranslate2
from nmt.convert.target import Target

CTRANSLATE2 = Target(
    name=CTranslate2Engine.name,
    toolkit=TOOLKIT,
    holds=HOLDS,
    quantizations=QUANTIZATIONS,
    write=write_ctranslate2,
    sides=ctranslate2_sides,
    check_files=check_ctranslate2_files,
    usage=ctranslate2_usage,
    remarks=ctranslate2_remarks,
    package="ctranslate2",
)
