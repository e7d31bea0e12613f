"""What children of tests run that end in odd ways: importable through sys.path, as in `children`."""

import os
import time

from pretuned.outcome import CompileError


def failing():
    """Raises what a broken pipe would raise, too."""

    def answer(request):
        raise FileNotFoundError("libcuda.so.1 is not here")

    return answer


def stuck():
    """Tells its process id, then hangs in C with the GIL held: no thread of the process runs again."""

    def answer(request):
        return os.getpid() if request == "pid" else sum(range(10**15))

    return answer


def slow_compiler():
    """Answers after a moment with the source."""

    def answer(request):
        module, _ = request
        if "slow" in module.text:
            time.sleep(0.5)
        return CompileError(line=module.text)

    return answer
