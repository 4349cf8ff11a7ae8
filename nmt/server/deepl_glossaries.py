"""The glossaries of DeepL's dialect: of one direction (version 2), or of several (version 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pydantic import BaseModel, Field
from starlette.responses import Response

from nmt.server.deepl import DIALECT
from nmt.server.errors import RequestError
from nmt.server.exchange import Caller, NoParameters, Operation, Server
from nmt.server.glossaries import Dictionary, GivenDictionary, KeptGlossary, merged

_TSV = "text/tab-separated-values"


class NewGlossary(GivenDictionary):
    """A glossary of one direction to create."""

    name: str = Field(description="Any name.", examples=["Animals"])


class NewMultilingual(BaseModel):
    """A glossary to create."""

    name: str = Field(description="Any name.", examples=["Animals"])
    dictionaries: list[GivenDictionary] = Field(
        description="The terms of each direction.",
        min_length=1,
        examples=[[{"source_lang": "EN", "target_lang": "DE", "entries": "cat\tKatze"}]],
    )


class CreatedGlossary(BaseModel):
    """A glossary that was created."""

    glossary_id: str


class ChangedGlossary(CreatedGlossary):
    """What changes in a glossary."""

    name: str | None = Field(None, description="Its new name.")
    dictionaries: list[GivenDictionary] = Field([], description="Terms that are added, or get another translation.")


class NewDictionary(CreatedGlossary, GivenDictionary):
    """The terms of a direction, which replace those that a glossary has."""


class OfDirection(CreatedGlossary):
    """The terms of a direction."""

    source_lang: str
    target_lang: str


async def _created(server: Server, name: str, given: Iterable[GivenDictionary], caller: Caller) -> KeptGlossary:
    # Reading a large one takes some milliseconds, in which the server answers others.
    dictionaries = await asyncio.to_thread(server.glossaries.read, given)
    return server.glossaries.keep(KeptGlossary(name, caller.key, dictionaries))


def _named(server: Server, asked: CreatedGlossary, caller: Caller) -> KeptGlossary:
    return server.glossaries.find(asked.glossary_id, caller.key)


async def _delete(server: Server, asked: CreatedGlossary, caller: Caller) -> Response:
    server.glossaries.drop(_named(server, asked, caller))
    return Response(status_code=204)


async def _create_one(server: Server, asked: NewGlossary, caller: Caller) -> object:
    return _single(await _created(server, asked.name, [asked], caller))


async def _list_single(server: Server, asked: NoParameters, caller: Caller) -> object:
    """Those of several directions, or none, cannot be described here."""
    return {"glossaries": [_single(kept) for kept in server.glossaries.of(caller.key) if len(kept.dictionaries) == 1]}


async def _describe_single(server: Server, asked: CreatedGlossary, caller: Caller) -> object:
    return _single(_named(server, asked, caller))


async def _entries_of_single(server: Server, asked: CreatedGlossary, caller: Caller) -> Response:
    return Response(_dictionary(_named(server, asked, caller)).tsv, media_type=_TSV)


async def _pairs(server: Server, asked: NoParameters, caller: Caller) -> object:
    sources = server.service.models.sources.items()
    pairs = [{"source_lang": one.lower(), "target_lang": other.lower()} for one, some in sources for other in some]
    return {"supported_languages": pairs}


async def _create(server: Server, asked: NewMultilingual, caller: Caller) -> object:
    return _described(await _created(server, asked.name, asked.dictionaries, caller))


async def _list(server: Server, asked: NoParameters, caller: Caller) -> object:
    return {"glossaries": list(map(_described, server.glossaries.of(caller.key)))}


async def _describe(server: Server, asked: CreatedGlossary, caller: Caller) -> object:
    return _described(_named(server, asked, caller))


async def _change(server: Server, asked: ChangedGlossary, caller: Caller) -> object:
    given = await asyncio.to_thread(server.glossaries.read, asked.dictionaries)
    kept = _named(server, asked, caller)
    changes = {"name": asked.name or kept.name, "dictionaries": merged(kept.dictionaries, given)}
    return _described(server.glossaries.keep(kept, **changes))


async def _replace(server: Server, asked: NewDictionary, caller: Caller) -> object:
    given = await asyncio.to_thread(server.glossaries.read, [asked])
    kept = _named(server, asked, caller)
    server.glossaries.keep(kept, dictionaries={**kept.dictionaries, **given})
    return _information(*given.values())


async def _entries(server: Server, asked: OfDirection, caller: Caller) -> object:
    found = _named(server, asked, caller).find(asked.source_lang, asked.target_lang)
    return {"dictionaries": [{**_languages(found), "entries": found.tsv, "entries_format": "tsv"}]}


async def _delete_dictionary(server: Server, asked: OfDirection, caller: Caller) -> Response:
    kept = _named(server, asked, caller)
    found = kept.find(asked.source_lang, asked.target_lang)
    others = {pair: other for pair, other in kept.dictionaries.items() if other is not found}
    server.glossaries.keep(kept, dictionaries=others)
    return Response(status_code=204)


def _dictionary(kept: KeptGlossary) -> Dictionary:
    """The dictionary of a glossary of one direction.

    Raises:
        RequestError: it has several directions, or none.
    """
    if len(kept.dictionaries) != 1:
        raise RequestError(400, f"The glossary has {len(kept.dictionaries)} dictionaries, not 1: use /v3/glossaries.")
    [found] = kept.dictionaries.values()
    return found


def _single(kept: KeptGlossary) -> dict[str, object]:
    return {**_head(kept), "ready": True, **_information(_dictionary(kept))}


def _described(kept: KeptGlossary) -> dict[str, object]:
    return {**_head(kept), "dictionaries": list(map(_information, kept.dictionaries.values()))}


def _head(kept: KeptGlossary) -> dict[str, object]:
    return {"glossary_id": kept.id, "name": kept.name, "creation_time": kept.created.isoformat()}


def _information(one: Dictionary) -> dict[str, object]:
    return {**_languages(one), "entry_count": len(one.entries)}


def _languages(one: Dictionary) -> dict[str, str]:
    return {"source_lang": one.source_lang.lower(), "target_lang": one.target_lang.lower()}


_V2, _V3 = "/v2/glossaries", "/v3/glossaries"
_SINGLE, _ONE = f"{_V2}/{{glossary_id}}", f"{_V3}/{{glossary_id}}"
OPERATIONS = (
    Operation(DIALECT, "POST", _V2, _create_one, NewGlossary, "Create a glossary of one direction", status=201),
    Operation(DIALECT, "GET", _V2, _list_single, summary="List the glossaries of one direction"),
    Operation(DIALECT, "GET", _SINGLE, _describe_single, CreatedGlossary, "Describe a glossary of one direction"),
    Operation(
        DIALECT, "GET", f"{_SINGLE}/entries", _entries_of_single, CreatedGlossary, "Read a glossary", media_type=_TSV
    ),
    Operation(DIALECT, "DELETE", _SINGLE, _delete, CreatedGlossary, "Delete a glossary", status=204),
    Operation(DIALECT, "GET", "/v2/glossary-language-pairs", _pairs, summary="List the languages of glossaries"),
    Operation(DIALECT, "POST", _V3, _create, NewMultilingual, "Create a glossary", status=201),
    Operation(DIALECT, "GET", _V3, _list, summary="List the glossaries"),
    Operation(DIALECT, "GET", _ONE, _describe, CreatedGlossary, "Describe a glossary"),
    Operation(DIALECT, "PATCH", _ONE, _change, ChangedGlossary, "Rename a glossary, or add terms"),
    Operation(DIALECT, "DELETE", _ONE, _delete, CreatedGlossary, "Delete a glossary", status=204),
    Operation(DIALECT, "GET", f"{_ONE}/entries", _entries, OfDirection, "Read the terms of a direction"),
    Operation(
        DIALECT, "PUT", f"{_ONE}/dictionaries", _replace, NewDictionary, "Replace the terms of a direction, or add one"
    ),
    Operation(
        DIALECT,
        "DELETE",
        f"{_ONE}/dictionaries",
        _delete_dictionary,
        OfDirection,
        "Delete the terms of a direction",
        status=204,
    ),
)
