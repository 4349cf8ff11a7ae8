"""Reports: each page is one self-contained HTML file."""
