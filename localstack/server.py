"""How a server that stands for AWS is installed, started and ended.

A server is a script: emulator.py or host/serve.py. It describes itself by a Server and calls run().

    serve [--port N] [--log FILE] …   for programs
    up | down [--port N]              for people
    where                             prints the endpoint of the one that is up
    prepare                           installs what it needs, and no more
    python                            prints the interpreter that it would run on

"serve" prints one line of JSON when it answers, and ends, with everything that it has started, when its standard
input does. A parent that is killed therefore leaves nothing behind. "up" starts one in the background and "down"
ends it, by the process id in .cache/localstack/up.json. Exit status 3 means that this machine lacks something that
the line on standard error names.

Each listens on 127.0.0.1 only, keeps nothing, writes to .cache/localstack alone, and runs in a virtual environment
of its own, made at the first start from its pins.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.path.dirname(HERE), ".cache", "localstack")
UP = os.path.join(CACHE, "up.json")
HOST = "127.0.0.1"
MISSING = 3


@dataclass
class Server:
    doc: str
    script: str  # its path
    pins: str  # file of its pinned packages
    health: str  # path that answers with 200 when all is up
    python: Callable[[], str]  # the interpreter of its virtual environment, or missing()
    environ: Callable[[str, int], dict]  # settings, for a folder of data and a port
    serve: Callable  # starts it in the virtual environment; given the arguments; returns only at its end
    extra: Callable[[], None] = lambda: None  # installs what is no Python
    ending: Callable[[], None] = lambda: None  # ends processes that are not of this one's group
    more: Callable = lambda parser: None  # adds arguments
    others: dict = field(default_factory=dict)  # more commands, run in the virtual environment


def run(server):
    try:
        sys.exit(command(server, arguments(server)))
    except KeyboardInterrupt:
        sys.exit(130)


def command(server, args):
    if args.command == "down":
        return down()
    if args.command == "where":
        return where(server)
    if args.command == "python":
        print(server.python())
        return 0
    if args.command == "up" and (running := read_up()):
        if running["script"] != os.path.basename(server.script):
            return f"{running['script']} is up at {running['endpoint']}; take it down first"
        print(f"it is up already: {running['endpoint']}")
        return 0
    if args.data:
        return serve(server, args) if args.command == "serve" else server.others[args.command](args)
    if args.command == "serve":
        lead()
        # An installation, too, ends with the parent.
        threading.Thread(target=watch, args=(lambda: os.killpg(0, signal.SIGKILL),), daemon=True).start()
    python = environment(server)
    server.extra()
    if args.command == "prepare":
        return 0
    if args.command == "up":
        return up(server, args)
    return become(server, args, python)


def arguments(server):
    parser = argparse.ArgumentParser(description=server.doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["serve", "up", "down", "where", "prepare", "python", *server.others])
    parser.add_argument("--port", type=int, help="port to listen on; serve takes a free one, up takes 4566")
    parser.add_argument("--log", help="file that the log goes to")
    parser.add_argument("--data", help=argparse.SUPPRESS)
    server.more(parser)
    return parser.parse_args()


def missing(what):
    print(what, file=sys.stderr)
    raise SystemExit(MISSING)


# The virtual environment.


def environment(server):
    """Returns the Python of the virtual environment, which it makes if need be."""
    base = server.python()
    with open(server.pins, "rb") as file:
        pins = file.read()
    folder = installed("venv", pins + version(base).encode() + os.path.realpath(base).encode(), lambda folder: build(base, folder, server.pins))
    return os.path.join(folder, "bin", "python")


def installed(name, mark, make):
    """Returns a folder of the cache, which is made if need be. A change of the mark makes another one; the lock
    lets test binaries that start at once make it once."""
    folder = os.path.join(CACHE, f"{name}-{hashlib.sha256(mark).hexdigest()[:12]}")
    done = os.path.join(folder, "complete")
    if os.path.exists(done):
        return folder
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            open(done, "w").close()
    return folder


def build(base, folder, pins):
    if not quiet([base, "-c", "import ensurepip, venv"]):
        missing("Python has no venv module; on Debian: apt-get install python3-venv")
    python = os.path.join(folder, "bin", "python")
    install([base, "-m", "venv", folder])
    install([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", pins])


def install(step, **how):
    """Runs a step of an installation. Its last words say what went wrong. It ends with this process's group, and so
    with its parent: see watch."""
    result = subprocess.run(step, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)
    if result.returncode != 0:
        raise SystemExit(f"{os.path.basename(step[0])} cannot install what is needed: {' '.join(result.stdout.split()[-60:])}")


def quiet(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def version(python):
    """Returns the whole version of an interpreter, or nothing if it is none."""
    if python == sys.executable:
        return sys.version
    with contextlib.suppress(OSError):
        result = subprocess.run([python, "-c", "import sys; print(sys.version)"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode == 0:
            return result.stdout.strip()
    return ""


def become(server, args, python):
    """Starts anew under the virtual environment's Python. A server reads its settings when it is imported and hands
    its whole environment to functions, where on AWS they would see none of this machine: so it gets just what it
    needs. The socket is bound here already, because the port is part of the settings."""
    data = folder_of_data()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, args.port or 0))
    except OSError as error:
        shutil.rmtree(data, ignore_errors=True)
        raise SystemExit(f"port {args.port} on {HOST} cannot be had: {error.strerror}") from None
    listener.set_inheritable(True)
    port = listener.getsockname()[1]
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": data,
        "TMPDIR": data,
        "LANG": "C.UTF-8",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "PERDURE_LISTENER": str(listener.fileno()),
        **server.environ(data, port),
    }
    os.execve(python, [python, os.path.abspath(server.script), *sys.argv[1:], "--data", data], environ)


def folder_of_data():
    """Makes a folder that is this server's alone, and removes those of servers that were killed before they could.
    A server holds its folder's lock as long as it lives; the lock of the cache keeps others from taking a folder that
    is not locked yet for one that was left behind."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "data.lock"), "w") as cache:
        fcntl.flock(cache, fcntl.LOCK_EX)
        for name in os.listdir(CACHE):
            folder = os.path.join(CACHE, name)
            if name.startswith("data-") and abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
        data = tempfile.mkdtemp(prefix="data-", dir=CACHE)
        lock = os.open(os.path.join(data, "lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock, True)  # over execve: it ends with the process
    return data


def abandoned(folder):
    try:
        with open(os.path.join(folder, "lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


# Serving.


def serve(server, args):
    log = os.open(args.log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(log, 1)
    if args.log:
        os.dup2(log, 2)

    def end(*_):
        with contextlib.suppress(Exception):
            server.ending()
        shutil.rmtree(args.data, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=watch, args=(end,), daemon=True).start()
    threading.Thread(target=announce, args=(answers, server.health), daemon=True).start()
    server.serve(args)
    end()


def lead():
    """Makes a group of this process's own: ending it ends the processes that it has started with it. Whoever has a
    terminal is in one already, and could not read from it in another."""
    if os.getpgrp() != os.getpid() and not os.isatty(0):
        os.setpgid(0, 0)


def watch(end):
    """Waits for the end of standard input, which is the end of the parent."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    end()


def announce(answers, health):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    while not healthy(endpoint + health):
        time.sleep(0.02)
    with contextlib.suppress(OSError), answers:
        print(json.dumps({"endpoint": endpoint, "pid": os.getpid()}), file=answers)


def healthy(address):
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    return False


# In the background.


def up(server, args):
    log = args.log or os.path.join(CACHE, "up.log")
    # Its input is a pipe that it holds itself, so that it never ends.
    source, sink = os.pipe()
    ours = sys.argv[1:]
    ours[ours.index("up")] = "serve"
    start = [sys.executable, os.path.abspath(server.script), *ours, "--port", str(args.port or 4566), "--log", log]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    process = subprocess.Popen(start, stdin=source, stdout=subprocess.PIPE, pass_fds=[sink], start_new_session=True, text=True)
    try:
        line = process.stdout.readline()
        if line:
            write(UP, json.dumps({**json.loads(line), "script": os.path.basename(server.script)}))
    except BaseException:
        # It is in a session of its own, so that Ctrl-C did not reach it, and "down" does not know of it.
        os.killpg(process.pid, signal.SIGTERM)
        raise
    if not line:
        return f"it did not start; {log} may say why"
    print(f"up: {json.loads(line)['endpoint']}")
    return 0


def down():
    running = read_up()
    if not running:
        print("it is not up")
        return 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(running["pid"], signal.SIGTERM)
        limit = time.monotonic() + 10
        while alive(running["pid"]):
            if time.monotonic() > limit:
                os.killpg(running["pid"], signal.SIGKILL)
            time.sleep(0.05)
    os.remove(UP)
    print("down")
    return 0


def where(server):
    running = read_up()
    if running and running["script"] == os.path.basename(server.script):
        print(running["endpoint"])
    return 0


def read_up():
    """Returns what "up" has started if it is still there: ids of processes come round again."""
    try:
        running = json.loads(read(UP))
    except (OSError, ValueError):
        return None
    return running if running["script"] in line_of(running["pid"]) else None


def line_of(pid):
    """Returns the command line of a process. A bare Debian has no ps, and macOS no /proc."""
    if os.path.exists("/proc/self/cmdline"):
        with contextlib.suppress(OSError):
            return read(f"/proc/{pid}/cmdline")
        return ""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], stdout=subprocess.PIPE, text=True).stdout


def alive(pid):
    """Says whether a process runs. One that has ended and that its parent has not looked at does not."""
    if os.path.exists("/proc/self/stat"):
        try:
            return read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
