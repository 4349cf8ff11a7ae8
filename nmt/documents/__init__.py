"""Documents: a format finds the texts in a file, and translations take their places; all else stays byte for byte.

``document.py`` has the one way of writing; each format is a file that finds the places.
"""
