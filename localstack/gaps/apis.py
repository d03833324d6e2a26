"""HTTP APIs in front of functions: failures, time and size."""

import asyncio
import contextvars
import json

from ministack.services import apigateway as api
from ministack.services import lambda_svc as lam

from . import gap

DOCS = "https://docs.aws.amazon.com/apigateway/latest/developerguide"

# Whether the current request came through an HTTP API, and its integration.
inside = contextvars.ContextVar("inside", default=False)
current = contextvars.ContextVar("current", default=None)


@gap(
    "http-api-failures",
    "For a function that fails the answer is 500, for one at its limit of concurrency 503, and neither says more.",
    f"{DOCS}/http-api-troubleshooting-lambda.html",
)
def failures():
    proxy, convert = api._invoke_lambda_proxy, lam.lambda_execute_result_to_api_proxy_response

    async def invoke(*arguments, **named):
        mark = inside.set(True)
        try:
            return await proxy(*arguments, **named)
        finally:
            inside.reset(mark)

    def answer(result):
        if inside.get() and result.get("throttle"):
            return message(503, "Service Unavailable"), None
        if inside.get() and result.get("error"):
            return message(500, "Internal Server Error"), None
        return convert(result)

    api._invoke_lambda_proxy, lam.lambda_execute_result_to_api_proxy_response = invoke, answer


def message(status, text):
    return {"statusCode": status, "headers": {"Content-Type": "application/json"}, "body": json.dumps({"message": text})}


@gap(
    "http-api-time",
    "A function that takes longer than its integration allows, at most 30 s, goes on, and the answer is 503.",
    f"{DOCS}/http-api-quotas.html",
)
def time_limit():
    proxy, run = api._invoke_lambda_proxy, api.run_reentrant

    async def invoke(integration, *arguments, **named):
        mark = current.set(integration)
        try:
            return await proxy(integration, *arguments, **named)
        finally:
            current.reset(mark)

    async def run_limited(function, *arguments, **named):
        integration = current.get()
        if integration is None:
            return await run(function, *arguments, **named)
        # The wait is given up, not the function.
        task = asyncio.ensure_future(run(function, *arguments, **named))
        limit = int(integration.get("timeoutInMillis") or 30_000)
        done, _ = await asyncio.wait({task}, timeout=min(limit, 30_000) / 1000)
        return task.result() if done else {"body": message(503, "Service Unavailable")}

    api._invoke_lambda_proxy, api.run_reentrant = invoke, run_limited


@gap(
    "http-api-sizes",
    "A request over 10 MB is refused with 413.",
    f"{DOCS}/http-api-quotas.html",
)
def sizes():
    inner, limit = api.handle_execute, 10 * 1024 * 1024

    async def execute(api_id, stage, path, method, headers, body, *arguments, **named):
        if len(body or b"") > limit:
            return 413, {"Content-Type": "application/json"}, b'{"message":"Request Entity Too Large"}'
        return await inner(api_id, stage, path, method, headers, body, *arguments, **named)

    api.handle_execute = execute
