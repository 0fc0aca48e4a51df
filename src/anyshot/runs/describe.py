"""A value as JSON: enough to tell whether two values would compute the same.

What can be imported from anyshot, from an installed package or from the standard library is described by its qualified
name. Own functions and classes also have a hash of their source, of the values they close over, and of the own code and
the global values they use. Arrays are described by a hash of their content.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import inspect
import json
import logging
import math
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anyshot.tasks.fingerprint import array_sha256

INSTALLED = {*(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib"))}
INSTALLED |= {str(Path(__file__).parents[1])}


def describe(value: Any) -> Any:
    """The value as JSON. Equal values have equal descriptions, in other processes too.

    >>> describe((1, "a", np.zeros(2, np.float32)))[:2]
    [1, 'a']
    >>> describe(describe)
    {'name': 'anyshot.runs.describe.describe'}
    """
    return _Describer().describe(value)


def digest(value: Any) -> str:
    """One hash of a value's description."""
    return _hash(describe(value))


def describe_part(value: Any) -> dict[str, str]:
    """Name and hash of a network, a loss or the like. What can be imported from a package has no hash.

    >>> describe_part(math.tanh)
    {'name': 'math.tanh'}
    """
    named = {"name": qualified_name(value)}
    return named if describe(value) == named else {**named, "sha256": digest(value)}


def qualified_name(value: Any) -> str:
    """The module and name of a function or class; of its class, for anything else."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str):
        return qualified_name(type(value))
    return f"{getattr(value, '__module__', None) or 'builtins'}.{name}"


class _Describer:
    """Describes one value. Code that it meets a second time is only named."""

    def __init__(self) -> None:
        self._code: dict[int, Any] = {}  # by id; holding it keeps the id from being used again
        self._inside: set[int] = set()  # of the containers and objects being described, which may hold themselves

    def describe(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, ModuleType):
            return {"module": value.__name__}
        if _is_importable(value):
            return {"name": qualified_name(value)}
        if isinstance(value, (FunctionType, type)):
            return self._describe_code(value)
        if not isinstance(value, type) and hasattr(value, "__array__"):
            return self._describe_array(value)
        if id(value) in self._inside:
            return {"name": qualified_name(value)}
        self._inside.add(id(value))
        try:
            return self._describe_object(value)
        finally:
            self._inside.remove(id(value))

    def _describe_array(self, value: Any) -> Any:
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return {"key": str(value.dtype), "value": self.describe(np.asarray(jax.random.key_data(value)))}
        array = np.asarray(value)
        if array.dtype.hasobject:
            return {"array": f"object {list(array.shape)}", "value": self.describe(array.tolist())}
        return {"array": f"{array.dtype} {list(array.shape)}", "sha256": array_sha256(array)}

    def _describe_object(self, value: Any) -> Any:
        if isinstance(value, dict):
            if all(isinstance(name, str) for name in value):
                return {name: self.describe(part) for name, part in value.items()}
            return {"items": [[self.describe(name), self.describe(part)] for name, part in value.items()]}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = {name: self.describe(getattr(value, name)) for name in value._fields}
            return {"type": self.describe(type(value)), **fields}
        if isinstance(value, (list, tuple)):
            return [self.describe(part) for part in value]
        if isinstance(value, (set, frozenset)):  # whose order differs from process to process
            return {"set": sorted((self.describe(part) for part in value), key=_hash)}
        if isinstance(value, functools.partial):
            return {"partial": [self.describe(part) for part in (value.func, value.args, value.keywords)]}
        if isinstance(value, MethodType):
            return {"method": self.describe(value.__func__), "of": self.describe(value.__self__)}
        if isinstance(value, (staticmethod, classmethod)):
            return self.describe(value.__func__)
        if isinstance(value, property):
            return [self.describe(part) for part in (value.fget, value.fset)]
        kind = self.describe(type(value))
        wraps = {"wraps": self.describe(value.__wrapped__)} if hasattr(value, "__wrapped__") else {}
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return {"type": kind, **{name: self.describe(getattr(value, name, None)) for name in names}, **wraps}
        if wraps:  # such as a function compiled by jax.jit, whose attributes change when it is called
            functions = [part for part in vars(value).values() if isinstance(part, FunctionType)]
            return {"type": kind, **wraps, "functions": [self.describe(part) for part in functions]}
        parts = _attributes(value)
        return {"type": kind, "value": self.describe(parts) if parts else _text(value)}

    def _describe_code(self, value: Any) -> dict[str, Any]:
        """The name of a function or class, and a hash of everything that decides what it computes."""
        named = {"name": qualified_name(value)}
        if id(value) in self._code:
            return named
        self._code[id(value)] = value
        own = _is_own(value)
        content: list[Any] = [_source(value)] if own else []
        if isinstance(value, FunctionType):
            defaults = [part for part in (value.__defaults__, value.__kwdefaults__) if part]
            content += [self.describe(part) for part in (*_closed_over(value), *defaults)]
            content += [[name, self.describe(used)] for name, used in _used(value)] if own else []
        elif own:
            content += [self.describe(base) for base in value.__bases__]
            content += [[name, self.describe(part)] for name, part in _members(value)]
        return {**named, "sha256": _hash(content)} if content else named


def _is_importable(value: Any) -> bool:
    """Whether it stands in a module that is not the user's own, under its own name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str):
        module = "builtins" if getattr(value, "__self__", None) is None else None
    name = name or getattr(value, "__name__", None)
    found: Any = sys.modules.get(module or "")
    if not isinstance(name, str) or found is None or _is_own_file(getattr(found, "__file__", None), module or ""):
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _is_own(value: Any) -> bool:
    """Whether code is neither anyshot's nor from an installed package or the standard library."""
    if isinstance(value, FunctionType) and Path(value.__code__.co_filename).is_file():
        return _is_own_file(value.__code__.co_filename, "")
    module = value.__module__ or ""
    return _is_own_file(getattr(sys.modules.get(module), "__file__", None), module)


def _is_own_file(file: str | None, module: str) -> bool:
    if file is None:  # typed at a prompt, or part of the interpreter or of an extension module
        root = module.split(".")[0]
        file = getattr(sys.modules.get(root), "__file__", None) if root != "__main__" else None
    if file is None:
        return root not in sys.stdlib_module_names or root == "__main__"
    path = Path(file)
    inside = any(path.is_relative_to(folder) for folder in INSTALLED)
    return not inside and not {"site-packages", "dist-packages"} & set(path.parts)


def _closed_over(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global values that a function refers to, by name; of the modules that it uses, only own ones matter."""
    names, attributes = _global_names(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        used = function.__globals__[name]
        if not isinstance(used, ModuleType):
            yield name, used
        elif _is_own_file(getattr(used, "__file__", None), used.__name__):
            for attribute in sorted(attributes & vars(used).keys()):
                if not isinstance(vars(used)[attribute], ModuleType):
                    yield f"{name}.{attribute}", vars(used)[attribute]


def _global_names(code: CodeType) -> tuple[set[str], set[str]]:
    """The global names that code and the functions in it load, and the attributes they may look up."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    attributes = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _global_names(constant)
            names, attributes = names | inner[0], attributes | inner[1]
    return names, attributes


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class defines: methods as written, and public values."""
    for name, part in vars(kind).items():
        function = isinstance(getattr(kind, name, None), (FunctionType, MethodType, property))
        generated = getattr(getattr(part, "__code__", None), "co_qualname", "").startswith("__create_fn__")
        if (function and not generated) or (not function and not name.startswith("_")):
            yield name, part


def _source(value: Any) -> Any:
    code = getattr(value, "__code__", None)
    try:
        text = inspect.getsource(value if code is None else code)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # typed at a prompt, or run by exec
        return None if code is None else _compiled(code)
    if code is None or code.co_name != "<lambda>":
        return text
    # A line may hold several of them.
    spans = [span for span in code.co_positions() if None not in span and span[3]]
    return [text, min((span[2] for span in spans), default=0), max((span[3] for span in spans), default=0)]


def _compiled(code: CodeType) -> Any:
    constants = [_compiled(part) if isinstance(part, CodeType) else describe(part) for part in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names]


def _attributes(value: Any) -> dict[str, Any]:
    """What an object was given, by name."""
    if isinstance(value, logging.Logger):
        return {"name": value.name}
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    found = {name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}
    return {**found, **getattr(value, "__dict__", {})}


def _text(value: Any) -> str:
    """What an object says of itself, unless that is its place in memory."""
    text = repr(value)
    return "" if " at 0x" in text else text


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
