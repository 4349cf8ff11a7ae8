"""Export to packages of Argos Translate, which LibreTranslate uses too."""
