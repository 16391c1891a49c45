"""Runs a command as on a Linux that does not know the AMX tile registers.

A filter answers EINVAL, as such a kernel does, to the calls of arch_prctl that ask for
extended state (0x1021 and on), and lets every other call through.
"""

import ctypes
import os
import struct
import sys

ARCH_PRCTL, EINVAL = 158, 22
LOAD, EQUAL, NOT_LESS, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2

# code, jump when true, jump when false, operand; the call's number is at 0, its first argument at 16
program = [
    (LOAD, 0, 0, 0),
    (EQUAL, 0, 3, ARCH_PRCTL),
    (LOAD, 0, 0, 16),
    (NOT_LESS, 0, 1, 0x1021),
    (RETURN, 0, 0, ERROR | EINVAL),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, FILTER, filter, 0, 0):
    sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
