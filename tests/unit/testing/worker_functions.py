"""Functions that behave and misbehave in a worker."""

import os
import signal
import time


def double(request: bytes) -> bytes:
    print("printing does not disturb the answers")
    return request * 2


def process_id(request: bytes) -> bytes:
    return str(os.getpid()).encode()


def fail(request: bytes) -> bytes:
    raise ValueError(request.decode())


def crash(request: bytes) -> bytes:
    if request == b"exit":
        os._exit(3)
    if request == b"segv":
        os.write(2, b"last words\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    if request == b"hang":
        time.sleep(3600)
    if request == b"memory":
        return bytes(1 << 40)
    return b"fine"
