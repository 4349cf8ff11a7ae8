"""Models of OpenNMT-py."""
