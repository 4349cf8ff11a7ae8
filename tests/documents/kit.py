"""What tests of documents share."""

from nmt.documents.document import Document
from nmt.spans.span import Unit


def marked_up(unit: Unit, text: str, document: Document) -> str:
    """A translation behind the markup of its unit, in which each pair of tags holds a letter."""
    held = [(span, "w" if span.after and span.text is None else span.text or "") for span in unit.spans]
    return " ".join(
        [*(span.before + document.escape(inner) + span.after for span, inner in held), document.escape(text)]
    )


def translated(document: Document, texts: list[str]) -> bytes:
    """The document with these translations of its units, marked up."""
    pairs = zip(document.units, texts, strict=True)
    return b"".join(document.parts([marked_up(unit, text, document) for unit, text in pairs]))
