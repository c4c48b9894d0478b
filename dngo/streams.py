"""Random streams by name. Only this module decides from which stream something is drawn.

A stream is a `SeedSequence`. Its key ends in words of the digest of its name. Two names never have
the same stream. No name has the stream of a child from `spawn`, which appends a single number.
Before there were names, a stage's stream and a child's stream were once the same
(`tests/test_rules.py`).

    streams = Streams.of(seed, iteration)
    rng = streams("fit")                   # each name is handed out once
    below = Streams.below(rng)             # what a function that is given a generator names for itself
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

WORDS = 4  # of 32 bits of a name's digest


def key_of(name: str) -> tuple[int, ...]:
    """The part of a stream's key for a name: WORDS numbers."""
    digest = sha256(name.encode()).digest()
    return tuple(int.from_bytes(digest[4 * i : 4 * i + 4], "big") for i in range(WORDS))


class Streams:
    """Independent streams below one sequence. Each is given out once.

    Raises ValueError for a name that was given out before: a second use would draw the same
    numbers.
    """

    def __init__(self, sequence: np.random.SeedSequence) -> None:
        self.sequence = sequence
        self._given: set[str] = set()

    @classmethod
    def of(cls, seed: int, iteration: int) -> Streams:
        """The streams of an iteration of a study."""
        return cls(np.random.SeedSequence(seed, spawn_key=(iteration,)))

    @classmethod
    def below(cls, rng: np.random.Generator) -> Streams:
        """The streams below a generator. They do not depend on its earlier draws."""
        sequence = rng.bit_generator.seed_seq
        if not isinstance(sequence, np.random.SeedSequence):
            raise TypeError(f"a generator with a seed sequence is needed, not with {sequence!r}")
        return cls(sequence)

    def key(self, name: str) -> tuple[int, ...]:
        """The whole key of a name, in the form that an archive records."""
        return (*self.sequence.spawn_key, *key_of(name))

    def __call__(self, name: str) -> np.random.Generator:
        """The stream of a name. It can be taken only once."""
        if name in self._given:
            raise ValueError(f"the random stream {name!r} was given out before")
        self._given.add(name)
        return self.again(name)

    def again(self, name: str) -> np.random.Generator:
        """The stream of a name from its beginning, any number of times, to derive something again."""
        sequence = np.random.SeedSequence(self.sequence.entropy, spawn_key=self.key(name))
        return np.random.default_rng(sequence)
