"""The search space: its parameters, and the three faces of a point."""

from dngo.space.columns import Column
from dngo.space.names import ExpressionError
from dngo.space.space import Space
