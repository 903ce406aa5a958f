"""One replacement in one file, and the tests that must fail for it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    """Node ids, the quickest first: the first failure ends the run."""

    def applied(self, source: str) -> str:
        if source.count(self.before) != 1:
            raise ValueError(f"{self.name}: its place stands {source.count(self.before)} times in {self.file}")
        return source.replace(self.before, self.after)


@dataclass(frozen=True)
class In:
    """The tests of one file, by name."""

    file: str

    def __call__(self, *names: str) -> tuple[str, ...]:
        return tuple(f"tests/{self.file}.py::{name}" for name in names)
