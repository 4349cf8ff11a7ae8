"""The page for people, in a headless browser."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.reports.browser import needs_chromium, visited
from tests.server.doubles import serving

FILES = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


@pytest.mark.parametrize("path", FILES)
def test_the_page_runs_only_what_comes_from_the_server(server, path):
    answer = server.client.get(f"/{path}")
    assert answer.headers["content-type"] == f"{FILES[path]}; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "http:" not in answer.text
    assert "https:" not in answer.text


def with_a_late_image(app: Starlette) -> Starlette:
    """The application, whose page is complete after five seconds: the browser writes it down only then."""
    [page] = [route for route in app.routes if isinstance(route, Route) and route.path == "/"]
    answer = page.endpoint

    def with_image(request: Request) -> Response:
        return HTMLResponse(answer(request).body.decode().replace("</main>", '<img src="late.png" alt=""></main>'))

    async def image(request: Request) -> Response:
        await asyncio.sleep(5)
        return Response(b"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\0;", media_type="image/gif")

    app.router.routes[:0] = [Route("/", with_image), Route("/late.png", image)]
    return app


@needs_chromium
def test_a_linked_text_is_translated(tmp_path):
    with serving(wrap=with_a_late_image) as running:
        content, console = visited(f"http://127.0.0.1:{running.port}/#en/de/good%20morning", tmp_path)
    assert console == []
    assert ">GOOD MORNING</output>" in content
    assert ">GOOD MORNING'</button>" in content  # an alternative
    assert "12 / 50,000" in content
    assert 'accept=".arb,.htm,' in content
