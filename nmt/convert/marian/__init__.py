"""Models of Marian, such as those of OPUS-MT."""
