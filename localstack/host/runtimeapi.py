"""The Lambda Runtime API (2018-06-01), served on 127.0.0.1 to one process of a function.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html; where it is silent, AWS's runtime interface
emulator was followed. All of them are served by one event loop in a thread of its own, which alone changes their
state: what other threads ask for is handed to it.
"""

import asyncio
import base64
import contextlib
import functools
import http
import json
import re
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

HOST = "127.0.0.1"
# Six megabytes and what goes around them. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
LIMIT = 6 * 1024 * 1024 + 100
# Headers and trailers: aws-lambda-go sends a megabyte of reasons at most.
HEAD_LIMIT = 2 * 1024 * 1024
# The type of an answer that opens with a status and headers.
FRAMED = "application/vnd.awslambda.http-integration-response"

EXIT = "Runtime.ExitError"

NEXT = "/2018-06-01/runtime/invocation/next"
INIT_ERROR = "/2018-06-01/runtime/init/error"
RESULT = re.compile(r"/2018-06-01/runtime/invocation/([^/]+)/(response|error)$")

STARTING, IDLE, RUNNING, ANSWERED = "Starting", "Ready", "Running", "Responded"

_lock = threading.Lock()


def loop():
    """Returns the event loop, which it starts if need be."""
    with _lock:
        return _started()


@functools.cache
def _started():
    new = asyncio.new_event_loop()
    threading.Thread(target=new.run_forever, name="lambda-runtime-api", daemon=True).start()
    return new


def error(kind, message):
    return json.dumps({"errorType": kind, "errorMessage": message}, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Answer:
    payload: bytes
    kind: str | None = None  # of error
    why: str = ""  # how the process ended, if it did

    @property
    def failed(self):
        return self.kind is not None


class NotTaken(Exception):
    """The process ended before it took the invocation, which is therefore not to blame."""


class InitFailed(Exception):
    """The process ended, or said that it would, before it first asked for work."""

    def __init__(self, why, payload=None):
        super().__init__(why)
        self.payload = payload


@dataclass
class Call:
    """An invocation on its way through a process."""

    id: str
    arn: str
    trace: str
    payload: bytes
    deadline: int = 0  # in milliseconds of the epoch
    stream: object = None  # takes the answer while it is written: streams.Stream
    done: Future = field(default_factory=Future)

    def headers(self):
        return {
            "Lambda-Runtime-Aws-Request-Id": self.id,
            "Lambda-Runtime-Deadline-Ms": str(self.deadline),
            "Lambda-Runtime-Invoked-Function-Arn": self.arn,
            "Lambda-Runtime-Trace-Id": self.trace,
        }


class Closed(Exception):
    """The peer has gone."""


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.method = self.path = ""
        self.headers, self.trailers = {}, {}

    async def request(self):
        """Reads the head of the next request, and says whether there was one."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        first, _, rest = head.decode("latin-1").partition("\r\n")
        self.method, self.path, _ = first.split(" ", 2)
        self.headers, self.trailers = parse(rest), {}
        if self.headers.get("expect", "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    async def body(self):
        """Yields the body as it comes. The trailers are known after it."""
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            left = int(self.headers.get("content-length") or 0)
            while left:
                piece = await self.reader.read(min(left, 65536))
                if not piece:
                    raise Closed
                left -= len(piece)
                yield piece
            return
        while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        trailers = ""
        while (line := (await self.reader.readuntil(b"\r\n")).decode("latin-1")) != "\r\n":
            trailers += line
        self.trailers = parse(trailers)

    async def skip(self):
        async for _ in self.body():
            pass

    async def reply(self, status, payload=b"", headers=()):
        fields = {"Content-Type": "application/json", "Content-Length": str(len(payload)), **dict(headers)}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.writer.write(f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n{head}\r\n".encode("latin-1") + payload)
        await self.writer.drain()

    async def gone(self):
        """Returns when the peer has closed. It sends nothing while it waits for a reply."""
        await self.reader.read(1)


def parse(lines):
    fields = (line.partition(":") for line in lines.split("\r\n") if line)
    return {name.strip().lower(): value.strip() for name, _, value in fields}


class Api:
    """What one process is served. Its port is open when this returns."""

    def __init__(self):
        self.listener = socket.create_server((HOST, 0), backlog=128)
        self.address = f"{HOST}:{self.listener.getsockname()[1]}"
        self.ready = Future()
        self.state = STARTING
        self.call = None  # the one that the process has taken
        self.offered = None  # the one that it has not
        self.waiting = None  # resolved when there is one for a process that waits for it
        self.server = None
        self.ended = False
        self.connections = set()
        asyncio.run_coroutine_threadsafe(self._serve(), loop()).result()

    # For any thread.

    def offer(self, call):
        """Gives the process an invocation when it next asks for one; call.done will know how it went."""
        loop().call_soon_threadsafe(self._offer, call)

    def end(self, why):
        """Says that the process has ended. What it had sent by then still counts."""
        asyncio.run_coroutine_threadsafe(self._end(why), loop())

    # In the loop.

    async def _serve(self):
        self.server = await asyncio.start_server(self._connected, sock=self.listener, limit=HEAD_LIMIT)

    def _offer(self, call):
        if self.ended:
            call.done.set_exception(NotTaken())
            return
        self.offered = call
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(None)

    async def _end(self, why):
        # The loop may yet have to accept a connection that the process made last.
        for _ in range(5):
            await asyncio.sleep(0)
        if self.connections:
            await asyncio.wait(self.connections, timeout=1)
        self.ended = True
        self.server.close()
        for task in self.connections:
            task.cancel()
        if not self.ready.done():
            self.ready.set_exception(InitFailed(why))
        if self.call and not self.call.done.done():
            self.call.done.set_result(Answer(b"", EXIT, why))
        if self.offered:
            self.offered.done.set_exception(NotTaken())

    async def _connected(self, reader, writer):
        task = asyncio.current_task()
        self.connections.add(task)
        connection = Connection(reader, writer)
        try:
            while await connection.request():
                await self._route(connection)
        except (Closed, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            self.connections.discard(task)
            writer.close()

    async def _route(self, connection):
        result = RESULT.match(connection.path)
        if connection.method == "GET" and connection.path == NEXT:
            await connection.skip()
            await self._next(connection)
        elif connection.method == "POST" and connection.path == INIT_ERROR:
            await self._init_error(connection)
        elif connection.method == "POST" and result:
            await self._result(connection, result[1], result[2] == "error")
        else:
            await connection.skip()
            await connection.reply(404, b"404 page not found\n")

    async def _next(self, connection):
        if self.state == RUNNING:
            await refuse(connection, self.state, IDLE)
            return
        self.state, self.call = IDLE, None
        if not self.ready.done():
            self.ready.set_result(None)
        if self.waiting:
            self.waiting.cancel()  # a process that asks again has given up the first time
        self.waiting = waiting = asyncio.get_running_loop().create_future()
        if self.offered:
            waiting.set_result(None)
        gone = asyncio.ensure_future(connection.gone())
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if self.waiting is waiting:
            self.waiting = None
        if gone.done() or waiting.cancelled():
            gone.cancel()
            raise Closed
        gone.cancel()
        await asyncio.wait({gone})
        self.call, self.offered, self.state = self.offered, None, RUNNING
        await connection.reply(200, self.call.payload, self.call.headers())

    async def _init_error(self, connection):
        payload = b"".join([piece async for piece in connection.body()])
        if self.state != STARTING or self.ready.done():
            await refuse(connection, self.state, "InitError")
            return
        self.ready.set_exception(InitFailed(kind_of(connection, payload), payload))
        await connection.reply(202, b'{"status":"OK"}')

    async def _result(self, connection, id, failed):
        call = self.call
        if not call or call.id != id:
            await connection.skip()
            await connection.reply(400, error("InvalidRequestID", "Invalid request ID"))
            return
        if self.state != RUNNING:
            await connection.skip()
            await refuse(connection, self.state, ANSWERED)
            return
        self.state = ANSWERED
        try:
            size, payload = await self._receive(connection, None if failed else call.stream)
        except BaseException:
            self.state = RUNNING  # it may send its answer again
            raise
        if size > LIMIT and payload is not None:
            message = f"payload size exceeded maximum allowed payload size ({LIMIT} bytes)."
            finish(call, Answer(error("Function.ResponseSizeTooLarge", "Response " + message), "Function.ResponseSizeTooLarge"))
            await connection.reply(413, error("RequestEntityTooLarge", f"Exceeded maximum allowed payload size ({LIMIT} bytes)."))
            return
        if failed:
            answer = Answer(payload, kind_of(connection, payload))
        elif kind := connection.trailers.get("lambda-runtime-function-error-type"):
            answer = Answer(broken(connection, kind), kind)
        else:
            answer = Answer(payload or b"")
        finish(call, answer)
        await connection.reply(202, b'{"status":"OK"}')

    @staticmethod
    async def _receive(connection, stream):
        """Returns how long the body is, and the body unless it has gone to a stream. A runtime says that it streams
        by a header; Go's says so by the type of the answer alone."""
        mode, kind = connection.headers.get("lambda-runtime-function-response-mode"), connection.headers.get("content-type", "")
        streamed = stream is not None and (mode == "streaming" or kind.startswith(FRAMED))
        if streamed:
            stream.begin(kind)
        size, payload = 0, bytearray()
        async for piece in connection.body():
            size += len(piece)
            if streamed:
                stream.feed(piece)
            elif size <= LIMIT:
                payload += piece
        return size, None if streamed else bytes(payload)


def finish(call, answer):
    if not call.done.done():
        call.done.set_result(answer)


async def refuse(connection, state, wanted):
    message = f"State transition from {state} to {wanted} failed for runtime. Error: State transition is not allowed"
    await connection.reply(403, error("InvalidStateTransition", message))


def kind_of(connection, payload):
    """Names the type of an error, which a runtime says in a header, in the body, or not at all."""
    if kind := connection.headers.get("lambda-runtime-function-error-type"):
        return kind
    with contextlib.suppress(ValueError, AttributeError):
        return json.loads(payload).get("errorType") or "Runtime.Unknown"
    return "Runtime.Unknown"


def broken(connection, kind):
    """Returns the error that ended a streamed answer."""
    with contextlib.suppress(ValueError):
        if body := base64.b64decode(connection.trailers.get("lambda-runtime-function-error-body", "")):
            return body
    return error(kind, "the stream of the answer was ended by an error")
