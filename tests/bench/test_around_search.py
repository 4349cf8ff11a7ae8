"""The benchmark of what is done around a search takes every line through all of it."""

from around_search import bench_around

from nmt.translation.translator import Translator


def test_each_line_gets_its_reference(data, model, monkeypatch):
    given = []
    joined = Translator.joined

    def recorded(self, line, parts):
        given.append((line, joined(self, line, parts).text))
        return joined(self, line, parts)

    monkeypatch.setattr(Translator, "joined", recorded)
    found = bench_around(model, data / "test.en", data / "test.de", rounds=2)
    expected = list(zip(*((data / f"test.{side}").read_text().splitlines() for side in ("en", "de")), strict=True))
    assert given == expected * 2
    assert found["lines"] == len(expected) and found["microseconds_per_line"] > 0
