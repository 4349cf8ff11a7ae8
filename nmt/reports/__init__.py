"""Pages to look at: each is one HTML file that needs nothing beside it."""
