"""The certificate of a converted model: what was compared with the other toolkit, and how closely it agrees."""
