"""What tests of documents share."""

from nmt.documents.document import Document
from nmt.spans.span import Unit


def marked_up(unit: Unit, text: str, document: Document, outside: str = "") -> str:
    """A translation with the markup of its unit: what is kept first, then pairs around the text.

    Args:
        outside: stands before and behind the pairs.
    """
    kept, begin, end = "", "", ""
    for span in unit.spans:
        if span.text is not None or not span.after:
            kept += f"{span.before}{document.escape(span.text or '')}{span.after} "
        else:
            begin, end = begin + span.before, span.after + end
    written = begin + document.escape(text) + end
    return kept + (f"{outside} {written} {outside}" if begin and outside else written)


def translated(document: Document, texts: list[str], outside: str = "") -> bytes:
    """The document with these translations of its units, marked up."""
    pairs = zip(document.units, texts, strict=True)
    return b"".join(document.parts([marked_up(unit, text, document, outside) for unit, text in pairs]))
