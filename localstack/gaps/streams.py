"""Function URLs that stream."""

import asyncio
import contextvars

from ministack.core import lambda_runtime as runtime
from ministack.core.responses import StreamingResponse
from ministack.services import lambda_svc as lam

from . import gap

# The stream that the current request waits for, and those of invocations in flight, by request id.
current = contextvars.ContextVar("stream", default=None)
streams = {}

SEPARATOR = lam._STREAM_PRELUDE_SEPARATOR
FRAMED = "application/vnd.awslambda.http-integration-response"


class Stream:
    """What a function has written and its client has not read: the runtime's thread feeds it, the loop drains it.

    A client that goes away does not stop the function, which is paid for to its end: what it writes from then on
    is thrown away.
    """

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.pieces = asyncio.Queue()
        self.begun = asyncio.Event()
        self.prelude = b""
        self.head = None

    def feed(self, piece):
        self.loop.call_soon_threadsafe(self._feed, piece)

    def close(self):
        self.loop.call_soon_threadsafe(self._close)

    def _feed(self, piece):
        if self.head is not None:
            self.pieces.put_nowait(piece)
            return
        # The prelude is JSON, so that it holds no such bytes; a stream that does not open with a brace has none.
        self.prelude += piece
        cut = self.prelude.find(SEPARATOR)
        if cut < 0 and self.prelude.startswith(b"{"):
            return
        split = cut + len(SEPARATOR) if cut >= 0 else 0
        self.head, rest = self.prelude[:split], self.prelude[split:]
        self.begun.set()
        if rest:
            self.pieces.put_nowait(rest)

    def _close(self):
        if self.head is None and self.prelude:
            self.head = b""
            self.pieces.put_nowait(self.prelude)
            self.begun.set()
        self.pieces.put_nowait(None)

    async def run(self, send, receive):
        while (piece := await self.pieces.get()) is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@gap(
    "url-streams",
    "A function URL with RESPONSE_STREAM hands on what the function writes while it writes it.",
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html",
)
def url_streams():
    handle, invoke, build = lam.handle_function_url_request, runtime.ProvidedWorker.invoke, runtime.ProvidedWorker._build_handler_class

    async def request(url_id, method, path, headers, body, query, resolved=None, source_ip=None):
        resolved = resolved or lam.resolve_function_url(url_id)
        if resolved is None or resolved[4].get("InvokeMode") != "RESPONSE_STREAM":
            return await handle(url_id, method, path, headers, body, query, resolved=resolved, source_ip=source_ip)
        stream = Stream()
        mark = current.set(stream)
        # The task copies the context, and the thread that calls the function copies the task's.
        whole = asyncio.ensure_future(handle(url_id, method, path, headers, body, query, resolved=resolved, source_ip=source_ip))
        current.reset(mark)
        begun = asyncio.ensure_future(stream.begun.wait())
        await asyncio.wait({whole, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if stream.head is None:
            return await whole
        cors = lam._function_url_cors_headers(resolved[4], headers)
        status, answered, _ = lam._function_url_stream_response({"body": stream.head}, cors)
        return status, answered, StreamingResponse(stream.run)

    def call(self, event, request_id, **named):
        stream = current.get()
        if stream is None:
            return invoke(self, event, request_id, **named)
        streams[request_id] = stream
        try:
            return invoke(self, event, request_id, **named)
        finally:
            streams.pop(request_id, None)
            stream.close()

    def handler(self, generation, pending):
        worker = self

        class Handler(build(self, generation, pending)):
            def do_POST(self):
                match = runtime._INVOCATION_RESULT_RE.search(self.path)
                stream = match and match[2] == "response" and streams.get(match[1])
                if not stream or not self.streams():
                    super().do_POST()
                    return
                for piece in self.chunks():
                    stream.feed(piece)
                worker._record_result(generation, match[1], "response", "")
                self._respond(202)

            def streams(self):
                """A runtime says so by a header; Go's says it by the type of what it sends, and AWS takes that too."""
                mode = self.headers.get("Lambda-Runtime-Function-Response-Mode")
                return mode == "streaming" or self.headers.get("Content-Type") == FRAMED

            def chunks(self):
                while size := int(self.rfile.readline(), 16):
                    yield self.rfile.read(size)
                    self.rfile.readline()
                # Trailers, which say what broke off, and an empty line.
                while self.rfile.readline().strip():
                    pass

        return Handler

    lam.handle_function_url_request = request
    runtime.ProvidedWorker.invoke, runtime.ProvidedWorker._build_handler_class = call, handler
