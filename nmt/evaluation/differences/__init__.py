"""Where the translations of two systems differ, and in what."""
