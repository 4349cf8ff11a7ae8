"""Models of Eole."""
