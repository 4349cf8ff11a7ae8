"""Spans of a text: markup, and what is not translated."""
