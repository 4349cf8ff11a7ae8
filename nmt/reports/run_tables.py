"""The tables of the page about training runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from nmt.data.manifest import Manifest
from nmt.reports.run_history import Record, RunHistory, number, values
from nmt.table import Table

# A failing run may have an event at each update.
_MAX_EVENTS = 500

_ABSENT = "–"


def figures(runs: Sequence[RunHistory]) -> Table:
    """The main figures: a row per figure, a column per run."""
    found = [_figures(run) for run in runs]
    return Table("", ["", *_labels(runs)], [[name, *(each[name] for each in found)] for name in found[0]], numbers=())


def _labels(runs: Sequence[RunHistory]) -> list[str]:
    return [run.label for run in runs]


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


def differing_settings(runs: Sequence[RunHistory]) -> Table:
    """The settings that are not the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    rows = [[_code(name), *(_setting(run, name) for run in runs)] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    return Table("", ["setting that differs", *_labels(runs)], differing, numbers=())


def all_settings(run: RunHistory) -> list[Table]:
    """The settings of a run, a table per section."""
    tables: dict[str, Table] = {}
    for name in run.settings:
        section, _, key = name.rpartition(".")
        tables.setdefault(section, Table(section or "general", [], numbers=())).add(key, _setting(run, name))
    return list(tables.values())


def _setting(run: RunHistory, name: str) -> str:
    """A value in YAML, as ``--set`` takes it."""
    if name not in run.settings:
        return _ABSENT
    value = run.settings[name]
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def data_sets(runs: Sequence[RunHistory]) -> Table:
    """The data sets, each once; ``nmt inspect`` shows where their text comes from."""
    rows = dict.fromkeys(_data_set(*each) for run in runs for each in run.manifests.items())
    header = ["data set", "languages", "licence", "training pairs", "fingerprint"]
    return Table("", header, [list(row) for row in rows], numbers={3})


def _data_set(file_name: str, manifest: Manifest | None) -> tuple[str, ...]:
    if manifest is None:
        return f"{file_name} cannot be read as a manifest", *[_ABSENT] * 4
    languages = f"{manifest.source_lang} → {manifest.target_lang}"
    train = manifest.files.get(f"train.{manifest.source_lang}")
    pairs = _ABSENT if train is None else f"{train.lines:,}"
    return manifest.name, languages, manifest.licence or _ABSENT, pairs, _code(manifest.fingerprint)


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


def samples(runs: Sequence[RunHistory]) -> list[tuple[Table, Table]]:
    """The sample sentences of validation: source and reference, and the translations over time.

    The second table has one row per update, and one column per run that translated the sentence.
    """
    found: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for run in runs:
        for record in run.validations:
            listed = record.get("samples")
            for sample in listed if isinstance(listed, list) else ():
                if not isinstance(sample, dict) or not sample:
                    continue
                source, reference, translation = (
                    str(sample.get(field, "")) for field in ("source", "reference", "translation")
                )
                by_update = found.setdefault((source, reference), {})
                by_update.setdefault(record["update"], {})[run.label] = translation
    return [_sample(source, reference, by_update, runs) for (source, reference), by_update in found.items()]


def _sample(
    source: str, reference: str, by_update: Mapping[int, Mapping[str, str]], runs: Sequence[RunHistory]
) -> tuple[Table, Table]:
    translators = [run for run in runs if any(run.label in row for row in by_update.values())]
    source_lang, target_lang = translators[0].languages
    pair = [["source", _sentence(source, source_lang)], ["reference", _sentence(reference, target_lang)]]
    titles = ["translation"] if len(runs) == 1 else _labels(translators)
    translations = Table("", ["update", *titles], numbers={0})
    for update, row in sorted(by_update.items()):
        translations.add(f"{update:,}", *(_sentence(row.get(run.label, ""), run.languages[1]) for run in translators))
    return Table("", [], pair, numbers=()), translations


def _sentence(sentence: str, language: str) -> Markup:
    lang = Markup(' lang="{}"').format(language) if language else ""
    return Markup('<span{} dir="auto">{}</span>').format(lang, sentence)


def events(runs: Sequence[RunHistory]) -> Table:
    """Starts, resumes and other events of each run, in the order of their updates."""
    several = len(runs) > 1
    header = ["run"] * several + ["update", "event", "what happened"]
    table = Table("", header, numbers={header.index("update")})
    for run in runs:
        starts = [(start, *_start(start)) for start in run.starts]
        others = [(event, str(event.get("event", "")), str(event.get("message", ""))) for event in run.events]
        for record, name, message in sorted([*starts, *others], key=lambda each: each[0]["update"]):
            table.add(*[run.label] * several, f"{record['update']:,}", name, message)
    more = len(table.rows) - _MAX_EVENTS
    if more > 0:
        del table.rows[_MAX_EVENTS:]
        table.note = f"And {more:,} more."
    return table


def _start(start: Record) -> tuple[str, str]:
    name = "resumed" if start["update"] else "started"
    return name, "; ".join(part for part in (str(start.get("hardware") or ""), _versions(start)) if part)
