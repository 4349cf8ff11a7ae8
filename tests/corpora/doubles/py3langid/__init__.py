"""A double of py3langid 0.4.0: what is used of it, with the same names and results, for few words of two languages."""
