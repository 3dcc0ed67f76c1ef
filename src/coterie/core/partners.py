"""How a method chooses whom a client learns with: a fact that each method declares in its own file.

The page, the report and `coterie methods NAME` ask it. Of a method that declares nothing, or that is not
installed any more, they say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Good = Literal["high", "low"]
Shares = Literal["model", "part", ""]
WEIGHTS = "weights"


@dataclass(frozen=True)
class Partners:
    """
    by        what it chooses by, the foremost first: matrices of its record by name, and whether a high or a
              low number speaks for the other. {WEIGHTS: "high"} if it records nothing but the weights of its
              sums; empty if it chooses nobody, as it trains alone or with everybody alike
    words     the same in a sentence for people at a site, by language; who chooses nobody needs none
    shares    what these weights are shares of: a client's "model", the "part" of it that all have in common,
              or "" if of neither
    ranks     whether it ranks the others before it trains: `coterie rank`
    follows   the option that has, for each client, the method which it follows, if that differs
    """

    by: Mapping[str, Good] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    shares: Shares = ""
    ranks: bool = False
    follows: str = ""

    @property
    def foremost(self) -> tuple[str, bool]:
        """The number that it chooses by before all others, and whether a high one is good."""
        name, good = next(iter(self.by.items()))
        return name, good == "high"

    def said(self, language: str = "en") -> str:
        """In this language, else in English; nothing where no words were given."""
        return self.words.get(language, self.words.get("en", ""))

    def clauses(self) -> dict[str, str]:
        """{language: the sentence as a part of another one}"""
        return {language: said[:1].lower() + said[1:].rstrip(".") for language, said in self.words.items()}

    def in_words(self) -> str:
        """For a person at a site, in one line."""
        if not self.by:
            return f"chooses: nobody, it trains alone or with everybody alike. {self.said()}".rstrip()
        numbers = [f"{name} ({good} is good)" for name, good in self.by.items() if name != WEIGHTS]
        told = f" Recorded: {', '.join(numbers)}." if numbers else ""
        return f"chooses: {self.said()}{told}"


NOBODY = Partners()
"""Of a method that trains alone, or with everybody alike."""
