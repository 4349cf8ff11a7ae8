"""Models of MarianMT in Hugging Face transformers: import and export."""
