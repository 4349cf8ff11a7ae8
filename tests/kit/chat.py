"""A server of chat completions on loopback, which answers as a test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Response = tuple[int, dict[str, str], bytes]
DROP_BY_DROP = {"Content_Length": "900"}
"""The headers of a response whose bytes come one by one, too few of them."""


def completion(text: str | None, ending: str = "stop", **message: Any) -> Response:
    """A chat completion as OpenAI's interface describes it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": ending}
    return 200, {}, json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


def error(status: int, message: str = "", **headers: str) -> Response:
    return status, headers, json.dumps({"error": {"message": message}}).encode()


@dataclass
class ChatDouble:
    """What a server was asked."""

    address: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def texts(self) -> list[str]:
        """The last line of each prompt: the text to translate."""
        return [request["messages"][-1]["content"].rpartition("\n")[2] for request in self.requests]


@contextmanager
def chat_server(answer: Callable[[str, int], Response]) -> Iterator[ChatDouble]:
    """Serve chat completions.

    Args:
        answer: called with the text to translate, and how often it was asked for before.
    """
    double = ChatDouble()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with double.lock:
                double.requests.append(request)
                double.keys.add(self.headers["Authorization"])
                *before, text = double.texts
            assert self.path == "/v1/chat/completions"
            status, headers, content = answer(text, before.count(text))
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            for byte in content if headers is DROP_BY_DROP else [content]:
                self.wfile.write(bytes([byte]) if isinstance(byte, int) else byte)
                time.sleep(0.1 * isinstance(byte, int))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:  # clients hang up, as they may
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        double.address = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield double
        finally:
            server.shutdown()
            server.block_on_close = False
