"""Scores of translations: BLEU, chrF and TER as sacreBLEU reports them, BLEU as the paper does, COMET."""
