"""The recipes that need large downloads, on miniature archives of the same layout, served on loopback."""

import gzip
import hashlib
from pathlib import Path

import pytest
import yaml

from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import builtin_text, parse_recipe
from nmt.data.shards import ParallelShards
from nmt.errors import DownloadError
from tests.data.one_data_set import build_vocabulary
from tests.kit.archives import tarred


def text(name, language, pairs):
    """Sentences that name where they come from, so that each can be found again."""
    return "".join(f"{name} {language} sentence number {n}\n" for n in range(pairs)).encode()


def sgml(side, language, pairs, name="newstest2014"):
    segments = "".join(
        f'<seg id="{n + 1}">{line}</seg>\n' for n, line in enumerate(text(name, language, pairs).decode().splitlines())
    )
    document = f'<doc sysid="ref" docid="x" genre="news" origlang="en">\n<p>\n{segments}</p>\n</doc>\n'
    return f'<{side}set setid="{name}" srclang="any" trglang="{language}">\n{document}</{side}set>\n'.encode()


def miniatures(language):
    """By base name, archives as the workshop published them, with a few lines a file."""
    both = ("en", language)
    pair = f"{language}-en"
    joined = f"{language}en"
    archives = {
        "training-parallel-europarl-v7.tgz": tarred(
            {
                f"training/europarl-v7.{p}-en.{side}": text("europarl", side, 40)
                for p in ("de", "fr")
                for side in (p, "en")
            }
        ),
        "training-parallel-commoncrawl.tgz": tarred(
            {f"commoncrawl.{p}-en.{side}": text("crawl", side, 30) for p in ("de", "fr") for side in (p, "en")}
            | {f"commoncrawl.{p}-en.annotation": b"notes\n" for p in ("de", "fr")}
        ),
        "training-parallel-nc-v9.tgz": tarred(
            {f"training/news-commentary-v9.{pair}.{side}": text("commentary", side, 20) for side in both}
        ),
        "training-parallel-un.tgz": tarred({f"un/undoc.2000.{pair}.{side}": text("un", side, 25) for side in both}),
        "training-giga-fren.tar": tarred(
            {f"giga-fren.release2.fixed.{side}.gz": gzip.compress(text("giga", side, 50)) for side in both}, "w"
        ),
        "dev.tgz": tarred({f"dev/newstest2013.{side}": text("newstest2013", side, 6) for side in both}),
        "test-full.tgz": tarred(
            {
                f"test-full/newstest2014-{joined}-{kind}.{side}.sgm": sgml(kind, side, 5)
                for kind in ("src", "ref")
                for side in both
            }
        ),
    }
    return {name: content for name, content in archives.items() if language == "fr" or name not in FRENCH_ONLY}


FRENCH_ONLY = {"training-parallel-un.tgz", "training-giga-fren.tar"}


def served_recipe(server, name, archives):
    """A copy of a built-in recipe with the addresses, sizes and checksums of what a server holds."""
    values = yaml.safe_load(builtin_text(name))
    for entry in values["downloads"].values():
        base = entry["url"].rsplit("/", 1)[1]
        content = archives[base]
        server.files[base] = content
        entry["url"] = f"{server.url}/{base}"
        for key, value in {
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "md5": hashlib.md5(content).hexdigest(),
        }.items():
            if key in entry:
                entry[key] = value
    return parse_recipe(values, name=name)


def content(folder, name):
    return (folder / name).read_bytes().decode().splitlines()


@pytest.mark.parametrize(
    ("name", "language", "corpora"),
    [
        ("wmt14-en-de", "de", {"europarl": 40, "crawl": 30, "commentary": 20}),
        ("wmt14-en-fr", "fr", {"europarl": 40, "crawl": 30, "un": 25, "commentary": 20, "giga": 50}),
    ],
)
def test_from_archives_to_shards(file_server, tmp_path, monkeypatch, name, language, corpora):
    monkeypatch.chdir(tmp_path)
    recipe = served_recipe(file_server, name, miniatures(language))
    # The largest archive comes in three pieces.
    largest = max(file_server.files, key=lambda base: len(file_server.files[base]))
    file_server.cut_after[largest] = [100, 50]
    prepared = prepare(recipe, tmp_path / name, cache=Path("cache"))

    asked = [wanted for base, wanted in file_server.requests if base == largest]
    assert asked == [None, "bytes=100-", "bytes=150-"]
    assert len(file_server.requests) == len(recipe.downloads) + 2
    for side in ("en", language):
        expected = [line for part, n in corpora.items() for line in text(part, side, n).decode().splitlines()]
        assert content(tmp_path / name, f"train.{side}") == expected
        assert content(tmp_path / name, f"valid.{side}") == text("newstest2013", side, 6).decode().splitlines()
        assert content(tmp_path / name, f"test.{side}") == text("newstest2014", side, 5).decode().splitlines()
    manifest = prepared.manifest
    assert {record.file.removeprefix("wmt14_full.") for record in manifest.sources} == set(file_server.files)
    for record in manifest.sources:
        packed = file_server.files[record.file.removeprefix("wmt14_full.")]
        assert (record.sha256, record.bytes) == (hashlib.sha256(packed).hexdigest(), len(packed))
    assert sum(manifest.filters.values()) == 0
    assert manifest.recipe["vocab_size"] == recipe.vocab_size
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    # More pieces than so little text can fill: the paper's number is lowered, and all pairs are encoded.
    built = build_vocabulary(tmp_path / name)
    assert built.trained is not None
    assert built.trained.asked_size == recipe.vocab_size
    for split, pairs in (("train", sum(corpora.values())), ("valid", 6)):
        assert len(ParallelShards.open(tmp_path / name, split)) == pairs

    file_server.files.clear()
    assert not prepare(recipe, tmp_path / name, cache=tmp_path / "cache").changed
    offline = prepare(recipe, tmp_path / name, cache=tmp_path / "cache", offline=True, force=True)
    assert offline.manifest.fingerprint == manifest.fingerprint


def test_leaked_pairs_are_counted_and_kept(file_server, tmp_path):
    archives = miniatures("de")
    archives["training-parallel-nc-v9.tgz"] = tarred(
        {
            "training/news-commentary-v9.de-en.en": text("newstest2014", "en", 2) + b"word " * 251 + b"\n\nkept\n",
            "training/news-commentary-v9.de-en.de": text("other", "de", 2) + b"wort\nx\n" + b"sehr " * 250 + b"\n",
        }
    )
    recipe = served_recipe(file_server, "wmt14-en-de", archives)
    prepared = prepare(recipe, tmp_path / "wmt", cache=tmp_path / "cache")
    assert prepared.manifest.filters == {
        "invalid_utf8": 0,
        "empty": 1,
        "too_long": 1,
        "leaked_kept": 2,
        "copied_kept": 0,
        "invisible_kept": 0,
    }
    assert prepared.manifest.files["train.en"].lines == 40 + 30 + 3


def test_offline_names_everything_that_is_missing(file_server, tmp_path):
    recipe = served_recipe(file_server, "wmt14-en-de", miniatures("de"))
    with pytest.raises(DownloadError) as error:
        prepare(recipe, tmp_path / "wmt", cache=tmp_path / "cache", offline=True)
    for entry in recipe.downloads.values():
        assert entry.url in str(error.value)
    assert not (tmp_path / "wmt").exists()


def talks():
    """The archive of IWSLT 2014, with its tags."""
    members = {}
    for side in ("de", "en"):
        body = "".join(
            f"<url>http://x/{n}</url>\n<keywords>talks, x</keywords>\n<speaker>A</speaker>\n<talkid>{n}</talkid>\n"
            f"<title>Title {side} {n}</title>\n<description>About {side} {n}</description>\n"
            + "".join(f" Spoken {side} {n} {k} \n" for k in range(30))
            for n in range(5)
        )
        members[f"de-en/train.tags.de-en.{side}"] = body.encode()
        for part in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            head = '<?xml version="1.0"?>\n<srcset>\n<doc docid="1">\n<title>No</title>\n'
            xml = f'{head}<seg id="1"> {part} &amp; {side} </seg>\n'
            members[f"de-en/IWSLT14.{part}.de-en.{side}.xml"] = xml.encode()
    return tarred(members)


@pytest.mark.parametrize("form", ["plain", "ted-tags"])
@pytest.mark.parametrize("text", [b"the same again\n" * 20_000, b"\n" * 200_000])
def test_a_compressed_text_that_unpacks_to_far_too_much_is_refused(file_server, tmp_path, monkeypatch, form, text):
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 100_000)
    for language in ("en", "de"):
        file_server.files[f"a.{language}.gz"] = gzip.compress(text)
    values = {
        "name": "bomb-en-de",
        "source_lang": "en",
        "target_lang": "de",
        "downloads": {language: {"url": f"{file_server.url}/a.{language}.gz"} for language in ("en", "de")},
        "train": [{"kind": "text", "name": "a", "files": {"en": "en", "de": "de"}, "format": form}],
        "valid": [{"kind": "held-out"}],
        "test": [{"kind": "held-out"}],
    }
    with pytest.raises(DownloadError, match=r"a\.en\.gz: unpacks to more than"):
        prepare(parse_recipe(values, name="bomb.yaml"), tmp_path / "bomb", cache=tmp_path / "cache")
    assert not (tmp_path / "bomb").exists()


def test_talks_lose_their_tags(file_server, tmp_path):
    recipe = served_recipe(file_server, "iwslt14-de-en", {"de-en.tgz": talks()})
    told = []
    prepared = prepare(recipe, tmp_path / "talks", cache=tmp_path / "cache", notify=told.append)
    assert prepared.manifest.corpora[0].pairs == 5 * 32
    train = content(tmp_path / "talks", "train.de") + content(tmp_path / "talks", "valid.de")
    assert len(train) == 160
    assert {"Title de 0", "About de 4", "Spoken de 3 29"} <= set(train)
    assert content(tmp_path / "talks", "test.en") == [
        f"{part} & en" for part in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    ]
    assert any("is recorded and expected" in notice for notice in told)
