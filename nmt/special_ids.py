"""The ids of the special pieces, the same in every vocabulary: padding, unknown, begin and end of a sentence."""

PAD, UNK, BOS, EOS = range(4)
