def prepare_data() -> None:
    """Placeholder."""
