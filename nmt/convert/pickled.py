"""Values of a pickle, read without running anything that it names.

Pickle is a small programming language: an ordinary reader imports the classes and calls the functions that a file
names. This one reads the instructions itself. It knows numbers, text, lists, mappings and references. An object of a
class becomes a bag of attributes. Where a file calls a function, ours for that name is called, or the file is refused.
"""

from __future__ import annotations

import pickletools
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn, Protocol, cast

LARGEST_NAME = 100
_KNOWN_PACKAGES = frozenset(
    ("argparse", "collections", "datetime", "eole", "fairseq", "joeynmt", "numpy", "omegaconf", "onmt", "pathlib",
     "pyonmttok", "sockeye", "torch", "torchtext", "types", "typing")
)  # fmt: skip
"""Packages whose classes are found in files of models. Their objects become bags of attributes."""
_PLAIN_KEYS = (str, int, float, bytes, type(None))


class PickleError(ValueError):
    """A pickle is damaged, or needs something that is not run. The message is the rest of a sentence about a file."""


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle names. It is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return shown(f"{self.module}.{self.name}")


@dataclass(repr=False)
class Instance:
    """What a pickle says about an object: its class, its attributes, and its content if it is a kind of container."""

    of: Name
    attributes: dict[str, Any] = field(default_factory=dict)
    items: dict[Any, Any] = field(default_factory=dict)
    elements: list[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.of}>"


class Stream(Protocol):
    """What pickles are read from."""

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        ...

    def readline(self) -> bytes:
        """A line."""
        ...


Functions = Mapping[tuple[str, str], Callable[..., object]]
"""Module and name of a function -> the function of ours that is called in its place."""


def shown(text: object) -> str:
    """Text of a file within a message: short, and without characters that cannot be printed."""
    # Lists that hold the same list many times may be of any size as text.
    return repr((text if isinstance(text, str) else reprlib.repr(text))[:LARGEST_NAME])[1:-1]


def read_pickle(stream: Stream, functions: Functions, persistent: Callable[[object], object] | None = None) -> object:
    """The next value of a stream, which is left behind the end of the pickle.

    Args:
        functions: what is called for functions beyond those of plain Python values.
        persistent: makes a value from a persistent id; None if there must be none.

    Raises:
        PickleError: the pickle is damaged, or calls a function that is not known.
    """
    machine = _Machine({**_PYTHON, **functions}, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(cast(IO[bytes], stream)):
            if opcode.name == "STOP":
                return machine.pop()
            machine.run(opcode.name, argument)
    except PickleError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, RecursionError, SyntaxError):
        raise PickleError("holds a damaged pickle") from None
    raise PickleError("holds a pickle that is cut off")


class _Machine:
    """The stack of values that the instructions of a pickle work on."""

    def __init__(self, functions: Functions, persistent: Callable[[object], object] | None) -> None:
        self._functions, self._persistent = functions, persistent
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        """The stacks below each mark."""
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        return self._stack.pop()

    def run(self, instruction: str, argument: Any) -> None:
        if instruction in _PUSHED:
            self._stack.append(argument)
        elif instruction in _CONSTANTS:
            self._stack.append(_CONSTANTS[instruction]())
        elif instruction not in _IGNORED:
            method = _INSTRUCTIONS.get(instruction)
            if method is None:
                raise PickleError(f"holds a pickle with the instruction {instruction}, which no model needs")
            method(self, argument)

    def _mark(self, _: Any) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _above_mark(self) -> list[Any]:
        above, self._stack = self._stack, self._below.pop()
        return above

    def _drop(self, _: Any) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._above_mark()

    def _drop_to_mark(self, _: Any) -> None:
        self._above_mark()

    def _repeat(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _tuple(self, _: Any) -> None:
        self._replace_by(tuple(self._above_mark()))

    def _short_tuple(self, count: int) -> None:
        items = self._stack[-count:]
        if len(items) < count:
            raise IndexError
        del self._stack[-count:]
        self._replace_by(tuple(items))

    def _replace_by(self, value: Any) -> None:
        self._stack.append(value)

    def _list(self, _: Any) -> None:
        self._replace_by(self._above_mark())

    def _dict(self, _: Any) -> None:
        above = self._above_mark()
        self._replace_by({})
        self._set(above)

    def _append(self, _: Any) -> None:
        value = self.pop()
        _elements(self._stack[-1]).append(value)

    def _appends(self, _: Any) -> None:
        above = self._above_mark()
        _elements(self._stack[-1]).extend(above)

    def _set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self._set([key, value])

    def _set_items(self, _: Any) -> None:
        self._set(self._above_mark())

    def _set(self, keys_and_values: list[Any]) -> None:
        mapping = self._stack[-1]
        items = mapping.items if isinstance(mapping, Instance) else mapping
        if not isinstance(items, dict) or len(keys_and_values) % 2:
            raise TypeError
        for key, value in zip(keys_and_values[::2], keys_and_values[1::2], strict=True):
            if not isinstance(key, _PLAIN_KEYS):
                raise PickleError("holds a pickle with keys that are neither text nor numbers")
            items[key] = value

    def _name(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(Name(module, name))

    def _name_on_stack(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError
        self._stack.append(Name(module, name))

    def _call(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        if isinstance(function, Instance):
            raise PickleError(
                "calls a method when it is read, which no model needs: it may be harmful, and was not run"
            )
        if not isinstance(arguments, tuple) or not isinstance(function, Name):
            raise TypeError
        ours = self._functions.get((function.module, function.name))
        if ours is None:
            _refuse(function)
        self._stack.append(ours(*arguments))

    def _new(self, _: Any) -> None:
        self.pop()  # arguments of __new__, which only containers of no model use
        self._stack.append(_instance(self.pop()))

    def _new_with_keywords(self, _: Any) -> None:
        self.pop()
        self._new(None)

    def _instance_of(self, argument: str) -> None:
        self._above_mark()
        self._name(argument)
        self._stack.append(_instance(self.pop()))

    def _instance_on_stack(self, _: Any) -> None:
        self._stack.append(_instance(self._above_mark()[0]))

    def _build(self, _: Any) -> None:
        state = self.pop()
        thing = self._stack[-1]
        if isinstance(thing, Instance):
            for part in state if isinstance(state, tuple) else (state,):
                if isinstance(part, dict):
                    thing.attributes.update((key, value) for key, value in part.items() if isinstance(key, str))
        elif isinstance(thing, Name):
            raise TypeError

    def _persistent_id(self, _: Any) -> None:
        if self._persistent is None:
            raise PickleError("holds a pickle that refers to other files")
        self._stack.append(self._persistent(self.pop()))


_PUSHED = frozenset(
    ("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
     "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE",
     "BINUNICODE", "BINUNICODE8")
)  # fmt: skip
_IGNORED = frozenset(("PROTO", "FRAME"))
_CONSTANTS: Mapping[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,  # elements are not compared: they may be anything
}
_INSTRUCTIONS: Mapping[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine._mark,
    "POP": _Machine._drop,
    "POP_MARK": _Machine._drop_to_mark,
    "DUP": _Machine._repeat,
    "PUT": _Machine._put,
    "BINPUT": _Machine._put,
    "LONG_BINPUT": _Machine._put,
    "MEMOIZE": _Machine._memoize,
    "GET": _Machine._get,
    "BINGET": _Machine._get,
    "LONG_BINGET": _Machine._get,
    "TUPLE": _Machine._tuple,
    "TUPLE1": lambda machine, _: machine._short_tuple(1),
    "TUPLE2": lambda machine, _: machine._short_tuple(2),
    "TUPLE3": lambda machine, _: machine._short_tuple(3),
    "FROZENSET": _Machine._tuple,
    "LIST": _Machine._list,
    "DICT": _Machine._dict,
    "APPEND": _Machine._append,
    "APPENDS": _Machine._appends,
    "ADDITEMS": _Machine._appends,
    "SETITEM": _Machine._set_item,
    "SETITEMS": _Machine._set_items,
    "GLOBAL": _Machine._name,
    "STACK_GLOBAL": _Machine._name_on_stack,
    "REDUCE": _Machine._call,
    "NEWOBJ": _Machine._new,
    "NEWOBJ_EX": _Machine._new_with_keywords,
    "INST": _Machine._instance_of,
    "OBJ": _Machine._instance_on_stack,
    "BUILD": _Machine._build,
    "BINPERSID": _Machine._persistent_id,
}


def _elements(thing: Any) -> list[Any]:
    elements = thing.elements if isinstance(thing, Instance) else thing
    if not isinstance(elements, list):
        raise TypeError
    return elements


def _instance(name: Any) -> Instance:
    if not isinstance(name, Name):
        raise TypeError
    if name.module.partition(".")[0] not in _KNOWN_PACKAGES:
        _refuse(name)
    return Instance(name)


def _refuse(name: Name) -> NoReturn:
    raise PickleError(f"asks for {name} when it is read, which no model needs: it may be harmful, and was not run")


def _mapping(*arguments: Any) -> dict[Any, Any]:
    """``OrderedDict``, with the list of pairs that old versions give it."""
    mapping: dict[Any, Any] = {}
    for key, value in arguments[0] if arguments and isinstance(arguments[0], list) else ():
        if not isinstance(key, _PLAIN_KEYS):
            raise TypeError
        mapping[key] = value
    return mapping


def _counted(*arguments: Any) -> dict[Any, Any]:
    """``Counter``."""
    return arguments[0] if arguments and isinstance(arguments[0], dict) else {}


def _encoded(text: str, encoding: str) -> bytes:
    """``codecs.encode``, by which old protocols write bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise TypeError
    return text.encode("latin-1")


def _opaque(*_: Any) -> Instance:
    """A value that no importer looks at."""
    return Instance(Name("nmt", "opaque"))


_PYTHON: Functions = {
    ("collections", "OrderedDict"): _mapping,
    ("collections", "defaultdict"): lambda *_: {},
    ("collections", "Counter"): _counted,
    ("copyreg", "_reconstructor"): lambda name, *_: _instance(name),
    ("copy_reg", "_reconstructor"): lambda name, *_: _instance(name),
    ("_codecs", "encode"): _encoded,
    ("builtins", "getattr"): _opaque,  # a method of an object, to be called later; nobody calls it here
    ("__builtin__", "getattr"): _opaque,
    ("builtins", "set"): lambda elements=(): list(elements),
    ("__builtin__", "set"): lambda elements=(): list(elements),
    ("_operator", "getitem"): _opaque,  # typing.Dict[str, Any]
    ("pathlib", "PosixPath"): _opaque,
    ("datetime", "timedelta"): _opaque,
    ("datetime", "datetime"): _opaque,
    ("numpy.core.multiarray", "scalar"): _opaque,
    ("numpy._core.multiarray", "scalar"): _opaque,
    ("numpy.core.multiarray", "_reconstruct"): _opaque,
    ("numpy._core.multiarray", "_reconstruct"): _opaque,
    ("numpy", "dtype"): _opaque,
    ("torch", "device"): _opaque,
    ("torch", "Size"): lambda sizes=(): tuple(sizes),
}
"""Functions that build plain values."""
