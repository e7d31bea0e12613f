"""Compilers that misbehave: workers for `CompilePool`, and scripts that stand for a C++ compiler (CXX)."""

from __future__ import annotations

import os
import signal
import sys
import time

from pretuned.outcome import CompileError

LOUD_BYTES = 100 << 20

# What each script does when it is asked to compile; it answers `--version` as the real one does.
SCRIPTS = {
    "hangs": "sleep 600",
    "hangs with a child": "sleep 600 & wait",
    "dies by a signal": "kill -SEGV $$",
    "prints 100 MB and fails": "head -c 104857600 /dev/zero | tr '\\0' x >&2; exit 1",
    "fails without a word": "exit 1",
    "succeeds without a file": "exit 0",
    "writes rubbish": 'for last; do :; done; echo rubbish > "$last"',
}


def hanging():
    """Answer one request of two, and hang in the other."""

    def answer(request):
        if int(request[0].key, 16) % 2:
            time.sleep(600)
        return CompileError(line="compiled")

    return answer


def dying():
    """Die by a signal at one request of two."""

    def answer(request):
        if int(request[0].key, 16) % 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        return CompileError(line="compiled")

    return answer


def loud():
    """Print 100 MB at one request of two."""

    def answer(request):
        if int(request[0].key, 16) % 2:
            for _ in range(LOUD_BYTES >> 20):
                sys.stderr.write("x" * (1 << 20))
        return CompileError(line="compiled")

    return answer
