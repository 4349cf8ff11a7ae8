"""Where passwords come from, to whom they go, and that nobody writes them down."""

import base64
import gzip
import json

import pytest
import yaml

from nmt.corpora.download import Fetcher
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import dump_recipe, load_recipe
from nmt.corpora.transfer import RemoteFile
from nmt.errors import ConfigError, DownloadError

SECRET = "s3cret"


def fetch(file, folder, **how):
    return Fetcher(**how).fetch(file, folder)


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """A user without passwords."""
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


def with_user(url, user="me", password=SECRET):
    return url.replace("http://", f"http://{user}:{password}@")


def test_an_address_s_own_go_first(file_server, tmp_path):
    (tmp_path / "home" / ".netrc").write_text("machine 127.0.0.1 login other password word\n")
    file_server.files |= {"a": b"x", "b": b"x"}
    fetch(RemoteFile(f"{with_user(file_server.url, password='p%40ss')}/a"), tmp_path)
    fetch(RemoteFile(f"{file_server.url}/b"), tmp_path)
    assert file_server.authorizations == [basic("me", "p@ss"), basic("other", "word")]


def test_netrc_gives_to_the_host_that_it_names(monkeypatch, tmp_path, file_server):
    def authorization(name, host="127.0.0.1"):
        file_server.files[name] = b"x"
        fetch(RemoteFile(f"{file_server.url.replace('127.0.0.1', host)}/{name}"), tmp_path)
        return file_server.authorizations[-1]

    assert authorization("a") is None
    (tmp_path / "home" / ".netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    assert authorization("b") == basic("me", SECRET)
    assert authorization("c", "localhost") is None
    (tmp_path / "mine").write_text("machine localhost login z password w\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "mine"))
    assert authorization("d") is None
    assert authorization("e", "localhost") == basic("z", "w")


@pytest.mark.parametrize(
    ("content", "place"),
    [(f"machine another\nlogin z pasword {SECRET}\n".encode(), "mine, line 2"), (b"\xff\xfe", "mine"), (None, "mine")],
)
def test_a_netrc_that_cannot_be_read_is_an_error_without_its_content(monkeypatch, tmp_path, content, place):
    if content is not None:
        (tmp_path / "mine").write_bytes(content)
    monkeypatch.setenv("NETRC", str(tmp_path / "mine"))
    with pytest.raises(DownloadError, match=f"{place}: cannot be read as a netrc file") as error:
        fetch(RemoteFile("http://localhost/a"), tmp_path)
    assert SECRET not in str(error.value)


def test_the_server_gets_them_and_another_host_does_not(file_server, tmp_path):
    file_server.files["a.gz"] = b"content"
    other = file_server.url.replace("127.0.0.1", "localhost")
    file_server.redirects["moved.gz"] = f"{other}/a.gz"
    fetch(RemoteFile(with_user(f"{file_server.url}/moved.gz")), tmp_path)
    assert file_server.authorizations == [basic("me", SECRET), None]


def test_who_needs_a_password_is_told_where_to_give_it(file_server, tmp_path):
    file_server.statuses["a.gz"] = [401]
    with pytest.raises(DownloadError, match=r"returned 401.*give user and password in ~/\.netrc"):
        fetch(RemoteFile(f"{file_server.url}/a.gz"), tmp_path)


def test_messages_hold_no_secret(file_server, tmp_path):
    told = []
    secret = f"{with_user(file_server.url)}/a.gz?sig={SECRET}"
    file_server.files[f"a.gz?sig={SECRET}"] = b"content"
    mirrors = [f"{with_user(file_server.url)}/mirror?token={SECRET}", f"file://{tmp_path}/none"]
    fetch(RemoteFile(secret), tmp_path / "cache", mirrors=mirrors, notify=told.append)
    assert [path for path, _ in file_server.requests] == [f"mirror/a.gz?token={SECRET}", f"a.gz?sig={SECRET}"]
    file_server.files.clear()
    with pytest.raises(DownloadError) as error:
        fetch(RemoteFile(secret), tmp_path / "other", mirrors=mirrors)
    with pytest.raises(DownloadError) as offline:
        fetch(RemoteFile(secret), tmp_path / "other", mirrors=mirrors, offline=True)
    with pytest.raises(DownloadError) as wrong_mirror:
        fetch(RemoteFile(secret), tmp_path / "other", mirrors=[f"ftp://me:{SECRET}@host/x"])
    with pytest.raises(DownloadError) as wrong_port:
        fetch(RemoteFile(secret), tmp_path / "other", mirrors=[f"http://me:{SECRET}/@host/x"])
    for message in (*told, *(str(each.value) for each in (error, offline, wrong_mirror, wrong_port))):
        assert SECRET not in message
        assert "me:" not in message
    assert SECRET not in repr(RemoteFile(secret))


def test_a_wrong_address_in_a_recipe_is_quoted_without_its_secrets(tmp_path):
    for url in (f"ftp://me:{SECRET}@host/a", f"http://me:{SECRET}/@host/a", f"http://host/?sig={SECRET}"):
        recipe = {"name": "x", "source_lang": "en", "target_lang": "de", "downloads": {"a": {"url": url}}}
        (tmp_path / "x.yaml").write_text(yaml.safe_dump(recipe))
        with pytest.raises(ConfigError, match=r"downloads\.a\.url: ") as error:
            load_recipe(str(tmp_path / "x.yaml"))
        assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "values",
    [
        {"downloads": {f"http://me:{SECRET}@host/a.gz": {"url": "http://host/a.gz"}}},
        {"downloads": {f"http://me:{SECRET}@host/a.gz": {"url": 3, "sum": "x"}}},
        {"test": [{"kind": "test-set", "name": "wmt14", "download": f"http://me:{SECRET}@host/a.tgz"}]},
    ],
)
def test_an_address_in_place_of_a_key_is_quoted_without_its_secrets(values, tmp_path):
    toy = [{"kind": "toy"}]
    recipe = {"name": "x", "source_lang": "en", "target_lang": "de", "train": toy, "valid": toy, "test": toy} | values
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(ConfigError, match=r"is an address: choose a short name|is not among the downloads") as error:
        load_recipe(str(tmp_path / "x.yaml"))
    assert SECRET not in str(error.value)
    assert "host/a" in str(error.value)


def test_nothing_that_is_written_holds_a_secret(file_server, tmp_path):
    """Signed addresses with a user: the data set, its manifest, the cache, and the recipe as shown."""
    downloads = {}
    for language in ("en", "de"):
        path = f"x/a.{language}.gz"
        file_server.files[f"{path}?X-Signature={SECRET}"] = gzip.compress(
            "".join(f"line {n} in {language}\n" for n in range(50)).encode()
        )
        downloads[language] = {"url": f"{with_user(file_server.url)}/{path}?X-Signature={SECRET}"}
    values = {
        "name": "signed-en-de",
        "source_lang": "en",
        "target_lang": "de",
        "downloads": downloads,
        "train": [{"kind": "text", "name": "a", "files": {"en": "en", "de": "de"}}],
        "valid": [{"kind": "held-out", "pairs": 2}],
        "test": [{"kind": "held-out", "pairs": 2}],
    }
    (tmp_path / "signed.yaml").write_text(yaml.safe_dump(values))
    recipe = load_recipe(str(tmp_path / "signed.yaml"))
    told = []
    prepare(recipe, tmp_path / "data", cache=tmp_path / "cache", notify=told.append)
    assert set(file_server.authorizations) == {basic("me", SECRET)}
    for root in (tmp_path / "data", tmp_path / "cache"):
        for path in root.rglob("*"):
            assert SECRET not in str(path)
            assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert {source["url"] for source in manifest["sources"]} == {f"{file_server.url}/x/a.{n}.gz" for n in ("en", "de")}
    assert SECRET not in dump_recipe(recipe) + "".join(told)
    assert not prepare(recipe, tmp_path / "data", cache=tmp_path / "cache").changed
