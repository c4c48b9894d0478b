"""The local process has moved: `dngo.surrogates.local_process`."""

from dngo.surrogates.local_process import LocalModel, Paths

__all__ = ["LocalModel", "Paths"]
