"""A process of a function: how it is started, what it prints, and that it ends.

Each is the leader of a session of its own, so that Ctrl-C does not reach it and what it has started can be ended
with it. end_all() ends them before the server ends; for a server that is killed, a guard does: a small process
that knows their ids and whose input ends with the server.
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time

import runtimeapi

# Its input: "+" and the id of a group that has begun, "-" and the id of one that has ended.
GUARD = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""

# A signal may end the server while it is ending already.
_lock = threading.RLock()
_live = set()
_guard = None
_ending = False


class Ending(Exception):
    """The server is about to end, and starts nothing any more."""


def end_all(wait=5):
    """Ends every process of a function, and lets none start from now on."""
    global _ending
    with _lock:
        _ending = True
        live = list(_live)
    for box in live:
        box.kill()
    limit = time.monotonic() + wait
    for box in live:
        box.gone.wait(max(0, limit - time.monotonic()))
    with _lock:
        if _guard:
            with contextlib.suppress(OSError):
                _guard.stdin.close()
            _guard.wait()


def _tell(sign, pid):
    """Tells the guard of a process. It is called with the lock held."""
    global _guard
    if _guard is None:
        command = [sys.executable, "-I", "-S", "-c", GUARD]
        _guard = subprocess.Popen(command, stdin=subprocess.PIPE, env={}, cwd="/", text=True, start_new_session=True)
    with contextlib.suppress(OSError, ValueError):
        print(f"{sign}{pid}", file=_guard.stdin, flush=True)


class Sandbox:
    """A running process and what it is served. It raises OSError if there is none to run."""

    def __init__(self, folder, environ):
        self.api = runtimeapi.Api()
        self.gone = threading.Event()
        self.memory = 0
        source, sink = os.pipe()
        self.output = Output(source)
        environ = {**environ, "AWS_LAMBDA_RUNTIME_API": self.api.address}
        try:
            with _lock:
                if _ending:
                    raise Ending
                self.process = start(os.path.join(folder, "bootstrap"), folder, environ, sink)
                _live.add(self)
                _tell("+", self.process.pid)
        except BaseException:
            self.api.end("it was not started")
            self.output.close()
            raise
        finally:
            os.close(sink)
        threading.Thread(target=self._wait, name=f"lambda-{self.process.pid}", daemon=True).start()

    def kill(self):
        with _lock:
            # Its id stands for it until it is waited for, which takes the lock as well.
            if self in _live:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)

    def _wait(self):
        pid = self.process.pid
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with _lock:
            # What it has started ends with it.
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            status = self.process.wait()
            _live.discard(self)
            _tell("-", pid)
        self.output.pull()
        self.output.close()
        self.api.end(reason(status))
        self.gone.set()

    def high_water(self):
        """Returns the most memory that it has had, in megabytes, as far as it is known."""
        if not self.gone.is_set():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{self.process.pid}/status") as file:
                peak = next((line for line in file if line.startswith("VmHWM:")), "")
                self.memory = max(self.memory, int(peak.split()[1]) // 1024)
        return max(self.memory, 1)


def start(command, folder, environ, sink):
    """Starts a process. A program that has just been unpacked may still be open for writing in another process that
    is about to become a program itself: that passes."""
    for _ in range(100):
        try:
            return subprocess.Popen([command], cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
            time.sleep(0.02)
    raise OSError(errno.ETXTBSY, os.strerror(errno.ETXTBSY), command)


def reason(status):
    """Says how a process ended in the words of AWS."""
    if status == 0:
        return "Runtime exited without providing a reason"
    if status > 0:
        return f"Runtime exited with error: exit status {status}"
    return f"Runtime exited with error: signal: {(signal.strsignal(-status) or str(-status)).lower()}"


class Output:
    """What a process prints, on standard output and standard error alike."""

    def __init__(self, source):
        os.set_blocking(source, False)
        self.source = source
        self.lock = threading.Lock()
        self.text = bytearray()
        runtimeapi.loop().call_soon_threadsafe(runtimeapi.loop().add_reader, source, self.pull)

    def pull(self):
        """Reads what has been printed by now: no pipe holds more than is read here."""
        with self.lock:
            for _ in range(4):
                try:
                    piece = os.read(self.source, 65536)
                except OSError:
                    return
                if not piece:
                    runtimeapi.loop().call_soon_threadsafe(self._forget)
                    return
                self.text += piece

    def take(self):
        """Returns what has been printed since it was last asked, in whole lines."""
        self.pull()
        with self.lock:
            text, self.text = self.text.decode(errors="replace"), bytearray()
        return text if not text or text.endswith("\n") else text + "\n"

    def close(self):
        runtimeapi.loop().call_soon_threadsafe(self._close)

    def _forget(self):
        if self.source >= 0:
            runtimeapi.loop().remove_reader(self.source)

    def _close(self):
        with self.lock:
            self._forget()
            os.close(self.source)
            self.source = -1
