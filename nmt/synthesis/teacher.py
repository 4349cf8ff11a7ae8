"""A teacher: a language model that translates lines. Answers that are no translation of a line are marked by a finding.

What is kept: each answer when it comes (:mod:`nmt.synthesis.answers`), so that nothing is asked twice.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from nmt.config import load_yaml
from nmt.errors import ConfigError
from nmt.synthesis.answers import WITHOUT_ANSWER, Answer, Answers
from nmt.synthesis.chat_server import ChatServer
from nmt.text.languages import is_unspaced, name_of
from nmt.translation.guard import Finding, Languages, Problem, problems
from nmt.translation.line_translator import LineTranslator
from nmt.translation.results import BLANK, TranslatedText, Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment

_LINES_PER_THREAD = 16
"""Lines of a window."""
_PROMPT = """Translate this sentence from {source} to {target}. Answer with the translation alone, in one line.

{text}"""
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_REFUSALS = resources.files("nmt.synthesis") / "refusals.txt"
_REFUSAL = re.compile("|".join(_REFUSALS.read_text("utf-8").splitlines()), re.IGNORECASE)
"""How language models refuse in the languages that they are asked for most: a pattern per line."""
_DOUBTS = ("looping", "copied", "too_short", "too_long")
"""Problems that drop an answer; the last two only between languages with spaces between words."""
_SHORT = "Hello."
"""A line that every language model answers in time."""


@dataclass(frozen=True)
class ChatRequest:
    """A request of chat completions. Its texts have places: ``{source}`` and ``{target}`` for the languages' names,
    ``{text}`` for the line."""

    body: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path | None, model: str) -> ChatRequest:
        """The request of a YAML file, with the name of the model; a plain one without a file.

        Raises:
            ConfigError: the file is no such request.
        """
        if path is None:
            return cls({"temperature": 0, "messages": [{"role": "user", "content": _PROMPT}], "model": model})
        body = load_yaml(path, may_be_pipe=True)
        match body.get("messages"):
            case [{"role": str(), "content": str()}, *_] as messages if "{text}" in json.dumps(messages):
                return cls({**body, "model": model})
        raise ConfigError(
            f"{path}: needs messages, each with a role and its content, one of them with {{text}}, where the line "
            "stands. Example: messages: [{role: user, content: 'Translate into {target}: {text}'}]"
        )

    @property
    def digest(self) -> str:
        """Tells requests apart."""
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()

    def filled(self, languages: Languages, text: str) -> ChatRequest:
        """The request for a line."""
        names = {"{source}": name_of(languages.source), "{target}": name_of(languages.target), "{text}": text}
        return ChatRequest(_replaced(self.body, names))


def _replaced(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            return re.sub(r"\{(?:source|target|text)\}", lambda found: names[found[0]], value)
        case list():
            return [_replaced(each, names) for each in value]
        case dict():
            return {key: _replaced(each, names) for key, each in value.items()}
    return value


@dataclass(frozen=True, kw_only=True)
class _Asked(Segment):
    """A line that the server was asked for."""

    answer: Future[Answer]


class Teacher(LineTranslator):
    """Asks a server for the translation of each line, several at the same time."""

    windows_ahead = 1  # else threads would wait at the end of each window for the slowest answer
    language_tags = ()
    max_source_length = 0
    batch_tokens = 0

    def __init__(self, server: ChatServer, request: ChatRequest, answers: Answers, languages: Languages) -> None:
        self.source_lang, self.target_lang = languages.source, languages.target
        self.window = _LINES_PER_THREAD * server.concurrency
        self._languages = languages
        self._server = server
        self._request = request
        self._short = request.filled(languages, _SHORT).body
        self._answers = answers
        self._pool = ThreadPoolExecutor(server.concurrency)
        self._has_words = not (is_unspaced(languages.source) or is_unspaced(languages.target))

    @classmethod
    @contextmanager
    def opened(cls, server: ChatServer, request: ChatRequest, answers: Path, languages: Languages) -> Iterator[Teacher]:
        """Start threads that ask the server, and open the file of answers. At the end, what was asked is waited for.

        Raises:
            DataError: the file of answers cannot be used.
        """
        with Answers.opened(answers) as known:
            teacher = cls(server, request, known, languages)
            try:
                yield teacher
            finally:
                server.stop()
                teacher._pool.shutdown(cancel_futures=True)
                server.close()

    @property
    def settings(self) -> dict[str, object]:
        """As :attr:`LineTranslator.settings`. The server is none of them: it may move."""
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        return {"teacher_model": self._request.body["model"], "request": self._request.digest, **languages}

    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """As :meth:`LineTranslator.prepare`: each line is one segment, which may have neither prefix nor spans. The
        server is asked for it at once."""
        return [[self._asked(line.text) if line.text.strip() else Segment(line.text, [])] for line in lines]

    def search(self, segments: Sequence[Segment]) -> list[TranslatedSegment]:
        """As :meth:`LineTranslator.search`.

        Raises:
            DownloadError: the server does not answer any more.
        """
        answers = [segment.answer.result() if isinstance(segment, _Asked) else None for segment in segments]
        given = [answer.ending for answer in answers if answer is not None]
        # Else all lines of a short text would be left out. A server that rejects a request does answer.
        if given and all(ending == "no_answer" for ending in given):
            self._server.check(self._short)
        return list(map(self._translated, segments, answers))

    def joined(self, line: str, parts: Sequence[TranslatedSegment]) -> Translation:
        """As :meth:`LineTranslator.joined`."""
        [part] = parts
        return Translation(line, part.candidates, guard=part.finding)

    def _asked(self, text: str) -> Segment:
        return _Asked(text, [], answer=self._pool.submit(self._ask, text))

    def _ask(self, text: str) -> Answer:
        request = self._request.filled(self._languages, text)
        answer = self._answers.find(request.digest)
        if answer is None:
            answer = self._server.ask(request.body, self._short)
            if answer.ending not in WITHOUT_ANSWER:
                self._answers.keep(request.digest, answer)
        return answer

    def _translated(self, segment: Segment, answer: Answer | None) -> TranslatedSegment:
        text, problem = ("", None) if answer is None else self._judged(segment.text, answer)
        best = TranslatedText(text, (), 0.0, 0.0) if text else BLANK
        return TranslatedSegment(segment, (best,), finding=Finding((problem,), repaired=False) if problem else None)

    def _judged(self, source: str, answer: Answer) -> tuple[str, Problem | None]:
        """The text of an answer, and why it is no translation, if it is none."""
        lines = [line.strip() for line in re.split(r"[\r\n]+", _THOUGHTS.sub("", answer.text)) if line.strip()]
        text = " ".join(lines)
        if answer.ending:
            return text, answer.ending
        if _REFUSAL.search(text) and not _REFUSAL.search(source):
            return text, "refused"
        if len(lines) > 1:
            return text, "several_lines"
        doubts = _DOUBTS if self._has_words else _DOUBTS[:2]
        found = problems(source, source.split(), text, text.split(), self._languages)
        return text, "empty" if not text else next((each for each in found if each in doubts), None)
