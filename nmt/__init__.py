"""nmt: neural machine translation from raw text to BLEU, true to "Attention Is All You Need"."""

__version__ = "0.1.0"
