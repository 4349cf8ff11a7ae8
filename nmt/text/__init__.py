"""Lines of text: read, decompressed, normalised, split into sentences, made safe to print."""
