"""The glossaries of DeepL's dialect."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, Field
from starlette.responses import Response

from nmt.server.deepl import DIALECT
from nmt.server.exchange import Caller, NoParameters, Operation, Server
from nmt.server.glossaries import EntriesFormat, KeptGlossary

_TSV = "text/tab-separated-values"


class NewGlossary(BaseModel):
    """A glossary to create."""

    name: str = Field(description="Any name.", examples=["Animals"])
    source_lang: str = Field(description="Language of the terms.", examples=["EN"])
    target_lang: str = Field(description="Language of their translations.", examples=["DE"])
    entries: str = Field(description="A term and its translation per line.", examples=["cat\tKatze"])
    entries_format: EntriesFormat = Field("tsv", description="Whether a tab or a comma is between them.")


class CreatedGlossary(BaseModel):
    """A glossary that was created."""

    glossary_id: str


async def _create(server: Server, asked: NewGlossary, caller: Caller) -> object:
    # Reading a large one takes some milliseconds, in which the server answers others.
    kept = await asyncio.to_thread(
        server.glossaries.add,
        asked.name,
        asked.source_lang,
        asked.target_lang,
        asked.entries,
        asked.entries_format,
        caller.key,
    )
    return _described(kept)


async def _list(server: Server, asked: NoParameters, caller: Caller) -> object:
    return {"glossaries": list(map(_described, server.glossaries.of(caller.key)))}


async def _describe(server: Server, asked: CreatedGlossary, caller: Caller) -> object:
    return _described(server.glossaries.find(asked.glossary_id, caller.key))


async def _entries(server: Server, asked: CreatedGlossary, caller: Caller) -> Response:
    return Response(server.glossaries.find(asked.glossary_id, caller.key).tsv, media_type=_TSV)


async def _delete(server: Server, asked: CreatedGlossary, caller: Caller) -> Response:
    server.glossaries.drop(server.glossaries.find(asked.glossary_id, caller.key))
    return Response(status_code=204)


async def _pairs(server: Server, asked: NoParameters, caller: Caller) -> object:
    sources = server.service.models.sources.items()
    pairs = [{"source_lang": one.lower(), "target_lang": other.lower()} for one, some in sources for other in some]
    return {"supported_languages": pairs}


def _described(kept: KeptGlossary) -> dict[str, object]:
    return {
        "glossary_id": kept.id,
        "name": kept.name,
        "ready": True,
        "source_lang": kept.source_lang.lower(),
        "target_lang": kept.target_lang.lower(),
        "creation_time": kept.created.isoformat(),
        "entry_count": len(kept.entries),
    }


_GLOSSARY = "/v2/glossaries/{glossary_id}"
OPERATIONS = (
    Operation(DIALECT, "POST", "/v2/glossaries", _create, NewGlossary, "Create a glossary", status=201),
    Operation(DIALECT, "GET", "/v2/glossaries", _list, summary="List the glossaries"),
    Operation(DIALECT, "GET", _GLOSSARY, _describe, CreatedGlossary, "Describe a glossary"),
    Operation(DIALECT, "GET", f"{_GLOSSARY}/entries", _entries, CreatedGlossary, "Read a glossary", media_type=_TSV),
    Operation(DIALECT, "DELETE", _GLOSSARY, _delete, CreatedGlossary, "Delete a glossary", status=204),
    Operation(DIALECT, "GET", "/v2/glossary-language-pairs", _pairs, summary="List the languages of glossaries"),
)
