"""A command whose system calls are refused: `python refusing.py ERRNO NAME,NAME COMMAND ...`.

The kernel itself refuses them by a filter (seccomp), also in processes that the command starts.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": {"link": 86, "linkat": 265}, "aarch64": {"linkat": 37}}
HERE = os.path.abspath(__file__)
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


def words(number: int, *names: str) -> list[str]:
    """The beginning of a command line whose calls of these names fail with an error number."""
    return [sys.executable, HERE, str(number), ",".join(names)]


def works() -> bool:
    """Whether this system and processor can do that."""
    return sys.platform == "linux" and platform.machine() in NUMBERS


def refuse(number: int, names: list[str]) -> None:
    """Have the kernel answer with an error number from now on."""
    known = NUMBERS[platform.machine()]
    calls = [known[name] for name in names if name in known]
    code = [(LOAD, 0, 0, 0)]  # the number of the call
    code += [(JUMP_EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | number)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    programme = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, programme):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    refuse(int(sys.argv[1]), sys.argv[2].split(","))
    os.execvp(sys.argv[3], sys.argv[3:])
