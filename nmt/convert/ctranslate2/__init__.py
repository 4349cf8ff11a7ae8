"""Export to CTranslate2."""
