"""A run's folder: model bundles, training state, which checkpoints are kept, and averages of them."""
