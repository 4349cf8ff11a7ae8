"""Translates lines with a package of Argos Translate, greedily: ``argos_1_11.py PACKAGE SCRATCH INPUT OUTPUT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.convert.real_models import common

package, scratch, source, output = map(Path, sys.argv[1:])
for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
    os.environ[name] = str(scratch / name)
os.environ |= {"ARGOS_PACKAGES_DIR": str(scratch / "packages"), "ARGOS_BEAM_SIZE": "1", "ARGOS_COMPUTE_TYPE": "float32"}
common.without("stanza", "spacy")

import argostranslate.package
import argostranslate.sbd
import argostranslate.translate

# The splitter would download a model. Each line is one sentence.
for splitter in vars(argostranslate.sbd).values():
    if hasattr(splitter, "lazy_detector"):
        splitter.split_sentences = lambda self, text: [text]

argostranslate.package.install_from_path(package)
[installed] = argostranslate.package.get_installed_packages()
languages = {language.code: language for language in argostranslate.translate.get_installed_languages()}
translation = languages[installed.from_code].get_translation(languages[installed.to_code])
lines = source.read_text("utf-8").removesuffix("\n").split("\n")
output.write_text("".join(f"{translation.translate(line)}\n" for line in lines), encoding="utf-8")
