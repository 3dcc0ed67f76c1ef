"""Names to classes: what may cross a network or stand in a config is a name with options, never code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from coterie.core.errors import UnknownName

T = TypeVar("T")


class Registry(Generic[T]):
    """Frozen dataclasses by name; `make` builds one from a name and its options.

    What is registered `within` a wider registry is known there too.
    """

    def __init__(
        self, kind: str, within: Registry[Any] | None = None, find: Callable[[], object] = lambda: None
    ) -> None:
        """`find` loads what registers itself when it is loaded, before a name is looked up."""
        self.kind, self._within, self._find = kind, within, find
        self._known: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """A decorator: `@METHODS.register("fedavg")` above a frozen dataclass."""

        def keep(cls: type[T]) -> type[T]:
            if name in self._known:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            if not dataclasses.is_dataclass(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                raise TypeError(f"{self.kind} {name!r} must be a frozen dataclass of its options")
            if self._within is not None:
                self._within.register(name)(cls)
            self._known[name] = cls
            cls.name = name  # type: ignore[attr-defined]
            return cls

        return keep

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._known:
            self._find()
        try:
            return self._known[name]
        except KeyError:
            raise UnknownName(self.kind, name, self._known) from None

    def make(self, name: str, **options: Any) -> T:
        """An instance; an option it does not have is refused with the nearest right one."""
        cls = self[name]
        fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for option in options:
            if option not in fields:
                raise UnknownName(f"option of {self.kind} {name}", option, fields)
        return cls(**options)

    def __contains__(self, name: object) -> bool:
        if name not in self._known:
            self._find()
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        self._find()
        return iter(sorted(self._known))

    def items(self) -> Iterator[tuple[str, type[T]]]:
        self._find()
        return iter(sorted(self._known.items()))
