"""Models of JoeyNMT."""
