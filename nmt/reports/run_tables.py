"""The text and the tables of the page about training runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nmt.addresses import public_address
from nmt.reports.html import NOTHING, Html, details, element, join, table, text
from nmt.reports.run_history import Record, RunHistory, number, values

# A failing run may have an event at each update.
_MAX_EVENTS = 500

_ABSENT = "–"


def figures(runs: Sequence[RunHistory]) -> Html:
    """The main figures of each run: tiles for one run, a table for several."""
    found = [_figures(run) for run in runs]
    if len(runs) == 1:
        tiles = (
            element("div", element("dt", text(name)), element("dd", text(value))) for name, value in found[0].items()
        )
        return element("dl", *tiles, class_="figures")
    rows = [[text(name), *(text(each[name]) for each in found)] for name in found[0]]
    return table(["", *(run.label for run in runs)], rows)


def _figures(run: RunHistory) -> dict[str, str]:
    return {
        "updates": f"{run.last_update:,}",
        "time trained": _duration(run.seconds),
        "best validation BLEU": _best(run.validations, "valid_bleu", "{:.2f}", highest=True),
        "best validation loss": _best(run.validations, "valid_loss", "{:.3f}", highest=False),
        "final training loss": _last(run.updates, "loss"),
        "final validation loss": _last(run.validations, "valid_loss"),
        "median target tokens/s": _median(run.updates, "target_tokens_per_second"),
        "skipped updates": f"{sum(values(run.updates, 'skipped_updates')):,.0f}",
        "hardware": _distinct(str(start.get("hardware") or "") for start in run.starts),
        "versions": _distinct(_versions(start) for start in run.starts),
    }


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return _ABSENT
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _best(validations: Sequence[Record], field: str, form: str, *, highest: bool) -> str:
    """The best value, and the first update with it."""
    found = [(value, record["update"]) for record in validations if (value := number(record, field)) is not None]
    if not found:
        return _ABSENT
    value, update = min(found, key=lambda each: (-each[0] if highest else each[0], each[1]))
    return f"{form.format(value)} at update {update:,}"


def _last(records: Sequence[Record], field: str) -> str:
    found = values(records, field)
    return f"{found[-1]:.3f}" if found else _ABSENT


def _median(records: Sequence[Record], field: str) -> str:
    found = values(records, field)
    return f"{statistics.median(found):,.0f}" if found else _ABSENT


def _versions(start: Record) -> str:
    versions = start.get("versions")
    if not isinstance(versions, Mapping):
        return ""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _distinct(texts: Iterable[str]) -> str:
    """Distinct texts in their order: a run may be resumed on another machine."""
    return "; then ".join(dict.fromkeys(each for each in texts if each)) or _ABSENT


def settings(runs: Sequence[RunHistory]) -> Html:
    """All settings of one run. For several runs: those that differ, then all settings of each, folded."""
    if len(runs) == 1:
        return _all_settings(runs[0])
    names = dict.fromkeys(name for run in runs for name in run.settings)
    differing = [name for name in names if len({_setting(run, name) for run in runs}) > 1]
    rows = ([element("code", text(name)), *(text(_setting(run, name)) for run in runs)] for name in differing)
    comparison = (
        table(["setting that differs", *(run.label for run in runs)], rows)
        if differing
        else element("p", text("All settings are the same."))
    )
    return join([comparison, *(details(f"All settings of {run.label}", _all_settings(run)) for run in runs)])


def _all_settings(run: RunHistory) -> Html:
    """One small table per section of the settings."""
    sections: dict[str, list[str]] = {}
    for name in run.settings:
        sections.setdefault(name.rpartition(".")[0], []).append(name)
    blocks = (
        element(
            "div",
            element("h3", text(title or "general")),
            table([], [[text(name.rpartition(".")[2]), text(_setting(run, name))] for name in names]),
        )
        for title, names in sections.items()
    )
    return element("div", *blocks, class_="columns")


def _setting(run: RunHistory, name: str) -> str:
    """A value in YAML, as ``--set`` takes it."""
    if name not in run.settings:
        return _ABSENT
    value = run.settings[name]
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def data_sets(runs: Sequence[RunHistory]) -> Html:
    """The manifest of each data set; one that several runs share is shown once."""
    users: dict[tuple[str, str], list[str]] = {}
    contents: dict[tuple[str, str], Any] = {}
    for run in runs:
        for name, manifest in run.manifests.items():
            key = (name, repr(manifest))
            contents[key] = manifest
            users.setdefault(key, []).append(run.label)
    several = len(runs) > 1
    return join(
        _data_set(name, contents[name, value], used_by=users[name, value] if several else [])
        for name, value in contents
    )


def _data_set(file_name: str, manifest: Any, *, used_by: Sequence[str]) -> Html:
    if not isinstance(manifest, dict):
        return element("p", text(f"{file_name} cannot be read as a manifest."))
    languages = [str(manifest[key]) for key in ("source_lang", "target_lang") if manifest.get(key)]
    facts = {
        "languages": " → ".join(languages),
        "licence": manifest.get("licence"),
        "fingerprint": manifest.get("fingerprint"),
        "used by": ", ".join(used_by),
    }
    sources = [
        [_source(entry), text(_count(entry.get("bytes"))), _code(entry.get("sha256"))]
        for entry in map(_dict, _list(manifest.get("sources")))
    ]
    filters = [[text(name), text(_count(count))] for name, count in _dict(manifest.get("filters")).items()]
    found = [
        [text(corpus.get("name", _ABSENT)), text(name), text(_count(_dict(record).get("pairs")))]
        for corpus in map(_dict, _list(manifest.get("corpora")))
        for name, record in _dict(corpus.get("filters")).items()
    ]
    files = [
        [text(name), text(_count(_dict(file).get("lines"))), _code(_dict(file).get("sha256"))]
        for name, file in _dict(manifest.get("files")).items()
    ]
    return element(
        "article",
        element("h3", text(manifest.get("name") or file_name)),
        table([], [[text(name), text(value)] for name, value in facts.items() if value]),
        table(["source", "bytes", "sha256"], sources, numbers={1}) if sources else NOTHING,
        table(["filter", "pairs"], filters, numbers={1}) if filters else NOTHING,
        table(["corpus", "filter", "pairs"], found, numbers={2}, long=True) if found else NOTHING,
        table(["file", "lines", "sha256"], files, numbers={1}) if files else NOTHING,
    )


def _source(entry: Mapping[str, Any]) -> Html:
    """The name of a file, and the address that it was fetched from."""
    url = entry.get("url")
    name = text(entry.get("file", _ABSENT))
    return join([name, element("div", text(public_address(str(url))), class_="note")]) if url else name


def _code(value: Any) -> Html:
    return element("code", text(value or _ABSENT))


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else _ABSENT


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def samples(runs: Sequence[RunHistory]) -> Html:
    """The sample sentences of validation, with their translations over time: one row per update, one column per run."""
    found: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for run in runs:
        for record in run.validations:
            for sample in filter(None, map(_dict, _list(record.get("samples")))):
                source, reference, translation = (
                    str(sample.get(field, "")) for field in ("source", "reference", "translation")
                )
                by_update = found.setdefault((source, reference), {})
                by_update.setdefault(record["update"], {})[run.label] = translation
    return join(_sample(source, reference, by_update, runs) for (source, reference), by_update in found.items())


def _sample(
    source: str, reference: str, by_update: Mapping[int, Mapping[str, str]], runs: Sequence[RunHistory]
) -> Html:
    translators = [run for run in runs if any(run.label in row for row in by_update.values())]
    source_lang, target_lang = translators[0].languages
    rows = (
        [text(f"{update:,}"), *(_sentence(row.get(run.label, ""), run.languages[1]) for run in translators)]
        for update, row in sorted(by_update.items())
    )
    titles = ["translation"] if len(runs) == 1 else [run.label for run in translators]
    return element(
        "article",
        table(
            [],
            [[text("source"), _sentence(source, source_lang)], [text("reference"), _sentence(reference, target_lang)]],
        ),
        table(["update", *titles], rows, numbers={0}, long=True),
    )


def _sentence(sentence: str, language: str) -> Html:
    return element("span", text(sentence), lang=language or None, dir="auto")


def events(runs: Sequence[RunHistory]) -> Html:
    """Starts, resumes and other events of each run, in the order of their updates."""
    several = len(runs) > 1
    rows = []
    for run in runs:
        starts = [(start, *_start(start)) for start in run.starts]
        others = [(event, str(event.get("event", "")), str(event.get("message", ""))) for event in run.events]
        for record, name, message in sorted([*starts, *others], key=lambda each: each[0]["update"]):
            rows.append([text(run.label)] * several + [text(f"{record['update']:,}"), text(name), text(message)])
    if not rows:
        return NOTHING
    header = ["run"] * several + ["update", "event", "what happened"]
    more = len(rows) - _MAX_EVENTS
    return join(
        [
            table(header, rows[:_MAX_EVENTS], numbers={header.index("update")}, long=True),
            element("p", text(f"And {more:,} more.")) if more > 0 else NOTHING,
        ]
    )


def _start(start: Record) -> tuple[str, str]:
    name = "resumed" if start["update"] else "started"
    return name, "; ".join(part for part in (str(start.get("hardware") or ""), _versions(start)) if part)
