"""Models of Sockeye 3."""
