"""Loads the language identifier where commands under test are forked: it takes longer than a short translation."""

import importlib.util

from nmt.corpora.wrong_language import language_identifier

if importlib.util.find_spec("py3langid") is not None:
    language_identifier()
