"""The search space: its parameters, and the three faces of a point."""

from dngo.space.space import Column, Space

__all__ = ["Column", "Space"]
