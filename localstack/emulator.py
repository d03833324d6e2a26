"""An endpoint that answers as AWS does, for tests: MiniStack with its known gaps closed.

    python3 localstack/emulator.py serve [--port N] [--log FILE] [--leave GAP]...
    python3 localstack/emulator.py up|down [--port N]
    python3 localstack/emulator.py gaps

"serve" is for programs: it prints one line of JSON when it answers, and ends, with everything that it
has started, when its standard input does. A parent that is killed therefore leaves nothing behind.
"up" starts one in the background and "down" ends it, by the process id in .cache/localstack/up.json.

It listens on 127.0.0.1 only, keeps nothing, and writes to .cache/localstack alone. It runs in a virtual
environment of its own, made at the first start from requirements.txt. Exit status 3 means that this
machine lacks something that the line on standard error names.
"""

import argparse
import asyncio
import contextlib
import fcntl
import hashlib
import importlib.util
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

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.path.dirname(HERE), ".cache", "localstack")
UP = os.path.join(CACHE, "up.json")
HOST = "127.0.0.1"
MISSING = 3


def main():
    args = arguments()
    if args.command == "down":
        return down()
    if args.command == "up" and (running := read_up()):
        print(f"it is up already: {running['endpoint']}")
        return 0
    python = environment()
    if args.command == "prepare":
        return 0
    if args.command == "up":
        return up(args)
    if not args.data:
        become(args, python)
    return serve(args) if args.command == "serve" else gaps(args)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["serve", "up", "down", "prepare", "gaps"])
    parser.add_argument("--port", type=int, help="port to listen on; serve takes a free one, up takes 4566")
    parser.add_argument("--log", help="file that the log goes to")
    parser.add_argument("--leave", action="append", default=[], help="a gap to leave open, or all")
    parser.add_argument("--data", help=argparse.SUPPRESS)
    return parser.parse_args()


def missing(what):
    print(what, file=sys.stderr)
    raise SystemExit(MISSING)


# The virtual environment.


def environment():
    """Returns the Python of the virtual environment, which it makes if need be. A change of the pins or of
    Python makes another one; the lock lets test binaries that start at once build it once."""
    if sys.version_info < (3, 10):
        missing(f"the emulator needs Python 3.10 or newer; this is {sys.version.split()[0]}")
    pins = os.path.join(HERE, "requirements.txt")
    with open(pins, "rb") as file:
        mark = hashlib.sha256(file.read() + sys.version.encode()).hexdigest()[:12]
    folder = os.path.join(CACHE, "venv-" + mark)
    python, done = os.path.join(folder, "bin", "python"), os.path.join(folder, "complete")
    if os.path.exists(done):
        return python
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "venv.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            build(folder, python, pins)
            open(done, "w").close()
    return python


def build(folder, python, pins):
    if not importlib.util.find_spec("venv") or not importlib.util.find_spec("ensurepip"):
        missing("Python has no venv module; on Debian: apt-get install python3-venv")
    shutil.rmtree(folder, ignore_errors=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", pins]
    for step in ([sys.executable, "-m", "venv", folder], install):
        # The last words of pip say what it lacks.
        result = subprocess.run(step, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            missing(f"the emulator cannot be installed: {' '.join(result.stdout.split()[-60:])}")


def become(args, python):
    """Starts anew under the virtual environment's Python. MiniStack reads its settings when it is imported
    and hands its whole environment to functions, where on AWS they would see none of this machine: so it
    gets just what it needs. The socket is bound here already, because the port is part of the settings."""
    sweep()
    data = tempfile.mkdtemp(prefix="data-", dir=CACHE)
    write(os.path.join(data, "pid"), str(os.getpid()))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, args.port or 0))
    except OSError as error:
        shutil.rmtree(data)
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
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_EDITION": "perdure",
        "MINISTACK_REGION": "us-east-1",
        "S3_DATA_DIR": os.path.join(data, "s3"),
        "STATE_DIR": os.path.join(data, "state"),
        # No containers, and no listeners that nobody asks.
        "DOCKER_HOST": "unix://" + os.path.join(data, "docker"),
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "PERDURE_LISTENER": str(listener.fileno()),
    }
    os.execve(python, [python, os.path.abspath(__file__), *sys.argv[1:], "--data", data], environ)


def sweep():
    """Removes data of emulators that were killed before they could."""
    os.makedirs(CACHE, exist_ok=True)
    for name in os.listdir(CACHE):
        pid = os.path.join(CACHE, name, "pid")
        if name.startswith("data-") and os.path.exists(pid) and not alive(int(read(pid) or 0)):
            shutil.rmtree(os.path.join(CACHE, name), ignore_errors=True)


# Serving.


def serve(args):
    log = os.open(args.log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(log, 1)
    if args.log:
        os.dup2(log, 2)
    # A group of its own: ending it ends the functions' processes with it.
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, lambda *_: end(args.data))
    signal.signal(signal.SIGINT, lambda *_: end(args.data))
    threading.Thread(target=watch, args=(args.data,), daemon=True).start()
    threading.Thread(target=announce, args=(answers,), daemon=True).start()

    sys.path.insert(0, HERE)
    import gaps as known

    known.close(leave=args.leave)

    from hypercorn.asyncio import serve as hypercorn
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = ["fd://" + os.environ.pop("PERDURE_LISTENER")]
    config.keep_alive_timeout = 75
    # By default a connection ends after a thousand requests, unannounced: the answer to the next one is lost.
    config.keep_alive_max_requests = sys.maxsize
    config.loglevel = "WARNING"
    asyncio.run(hypercorn(app, config, shutdown_trigger=never))


async def never():
    """Nothing is worth shutting down for in order: nothing is kept."""
    await asyncio.Event().wait()


def watch(data):
    """Waits for the end of standard input, which is the end of the parent."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    end(data)


def end(data):
    shutil.rmtree(data, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def announce(answers):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    while not healthy(endpoint):
        time.sleep(0.02)
    with contextlib.suppress(OSError), answers:
        print(json.dumps({"endpoint": endpoint, "pid": os.getpid()}), file=answers)


def healthy(endpoint):
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(endpoint + "/_ministack/health", timeout=5) as answer:
            return answer.status == 200
    return False


def gaps(args):
    sys.path.insert(0, HERE)
    import gaps as known

    known.load()
    for gap in known.KNOWN:
        print(f"{gap.name}\n    {gap.aws}\n    {gap.source}")
    shutil.rmtree(args.data)


# In the background.


def up(args):
    log = args.log or os.path.join(CACHE, "up.log")
    # Its input is a pipe that it holds itself, so that it never ends.
    source, sink = os.pipe()
    command = [sys.executable, os.path.abspath(__file__), "serve", "--port", str(args.port or 4566), "--log", log]
    for name in args.leave:
        command += ["--leave", name]
    process = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, pass_fds=[sink], start_new_session=True, text=True)
    try:
        line = process.stdout.readline()
        if line:
            write(UP, line)
    except KeyboardInterrupt:
        # It is in a session of its own, so that Ctrl-C did not reach it, and "down" does not know of it.
        os.killpg(process.pid, signal.SIGTERM)
        raise
    if not line:
        return f"the emulator did not start; {log} may say why"
    print(f"up: {json.loads(line)['endpoint']}")
    return 0


def down():
    running = read_up()
    if not running:
        print("it is not up")
        return 0
    os.kill(running["pid"], signal.SIGTERM)
    limit = time.monotonic() + 10
    while alive(running["pid"]):
        if time.monotonic() > limit:
            os.killpg(running["pid"], signal.SIGKILL)
        time.sleep(0.05)
    os.remove(UP)
    print("down")
    return 0


def read_up():
    """Returns what "up" has started if it is still there: ids of processes come round again."""
    try:
        running = json.loads(read(UP))
    except (OSError, ValueError):
        return None
    return running if os.path.basename(__file__) in command(running["pid"]) else None


def command(pid):
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


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
