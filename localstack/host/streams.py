"""Function URLs with RESPONSE_STREAM: what the function writes reaches the client while it is written.

https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html. LocalStack collects the whole
answer first. Here its handler runs in a thread of its own, and the executor, which it ends up calling in that
thread, finds there the stream to write to.
"""

import contextlib
import json
import queue
import threading
from http import HTTPStatus

from localstack.aws.api import ServiceException
from localstack.http import Response
from runtimeapi import FRAMED

SEPARATOR = b"\0" * 8

_current = threading.local()


def current():
    """Returns the stream that this thread's invocation answers to, if there is one."""
    return getattr(_current, "stream", None)


class Broken(Exception):
    """The function failed in the midst of its answer."""


class Stream:
    """What a function has written and its client has not read.

    A client that goes away does not stop the function, as on AWS: what it writes from then on is thrown away.
    """

    def __init__(self):
        self.items = queue.SimpleQueue()
        self.abandoned = False
        self.begun = False

    # For the executor.

    def begin(self, kind):
        self.begun = True
        self.items.put(("begin", kind))

    def feed(self, piece):
        if not self.abandoned:
            self.items.put(("piece", piece))

    def end(self, failed):
        if self.begun:
            self.items.put(("failed" if failed else "end", None))

    # For the handler.

    def returned(self, response, error):
        """Says what the invocation came to, which matters if nothing was streamed."""
        self.items.put(("returned", (response, error)))

    def pieces(self):
        while True:
            what, value = self.items.get()
            if what == "piece":
                yield value
            elif what == "end":
                return
            else:
                raise Broken("the function failed while it streamed its answer")


class Opening(bytes):
    """No bytes, but true: Twisted sends the head of a response with the first piece that is not false."""

    def __bool__(self):
        return True


def install():
    from localstack.services.lambda_ import urlrouter
    from rolo.serving.twisted import HeaderPreservingWSGIResponse

    write = HeaderPreservingWSGIResponse.write
    # Once it is sent, an Opening must be false: it would be the empty chunk that ends a body.
    HeaderPreservingWSGIResponse.write = lambda self, piece: write(self, bytes(piece))

    router = urlrouter.FunctionUrlRouter
    handle, convert = router.handle_lambda_url_invocation, urlrouter.lambda_result_to_response

    def invoke(*args, **more):
        try:
            return handle(*args, **more)
        except ServiceException as error:  # 429 for one that is throttled, 413 for too long a request
            return Response.for_json({"Message": str(error)}, status=error.status_code)

    def request(self, request, api_id, region, **more):
        if not streaming(api_id, region):
            return invoke(self, request, api_id, region, **more)
        stream = Stream()

        def run():
            _current.stream = stream
            try:
                stream.returned(invoke(self, request, api_id, region, **more), None)
            except Exception as error:
                stream.returned(None, error)

        threading.Thread(target=run, name="lambda-url", daemon=True).start()
        return respond(stream)

    def result(answer):
        head, separator, body = (answer.payload or b"").partition(SEPARATOR)
        if separator:
            return framed(head, [body])
        response = convert(answer)
        for cookie in cookies(answer.payload):
            response.headers.add("Set-Cookie", cookie)
        return response

    router.handle_lambda_url_invocation = request
    urlrouter.lambda_result_to_response = result


def streaming(api_id, region):
    from localstack.services.lambda_.invocation.models import lambda_stores

    for account in list(lambda_stores.keys()):
        for function in list(lambda_stores[account][region].functions.values()):
            for config in list(function.function_url_configs.values()):
                if config.url_id.lower() == api_id.lower():
                    return config.invoke_mode == "RESPONSE_STREAM"
    return False


def respond(stream):
    """Waits for the head of the answer, or for an answer that is not streamed."""
    what, value = stream.items.get()
    if what == "returned":
        response, error = value
        if error:
            raise error
        return response
    if not value.startswith(FRAMED):
        return plain(value, opened(b"", stream))
    begun = b""
    try:
        for piece in stream.pieces():
            begun += piece
            if SEPARATOR in begun:
                break
        head, separator, rest = begun.partition(SEPARATOR)
        if separator:
            return framed(head, opened(rest, stream))
    except (Broken, ValueError):
        pass
    stream.abandoned = True
    return bad()


def opened(rest, stream):
    try:
        yield Opening()
        if rest:
            yield rest
        yield from stream.pieces()
    finally:
        stream.abandoned = True


def framed(head, body):
    """Returns a response whose status, headers and cookies are given as JSON."""
    prelude = json.loads(head or b"{}")
    response = Response(status=int(prelude.get("statusCode", 200)))
    response.headers["Content-Type"] = "application/octet-stream"
    for name, value in (prelude.get("headers") or {}).items():
        response.headers[name] = str(value)
    for cookie in prelude.get("cookies") or []:
        response.headers.add("Set-Cookie", cookie)
    response.response = body
    return response


def cookies(payload):
    """Returns the cookies of an answer that is not streamed, which LocalStack passes over."""
    with contextlib.suppress(ValueError, AttributeError):
        return json.loads(payload).get("cookies") or []
    return []


def plain(kind, body):
    return Response(body, headers={"Content-Type": kind or "application/octet-stream"})


def bad():
    return Response("Internal Server Error", HTTPStatus.BAD_GATEWAY)
