"""Lambda: sizes, limits, and batches of queues."""

import json
import os
import threading
import time

from ministack.core import lambda_runtime as runtime
from ministack.services import lambda_svc as lam
from ministack.services.cloudformation import provisioners

from . import gap

DOCS = "https://docs.aws.amazon.com/lambda/latest"
LIMIT = 6 * 1024 * 1024
ANSWER_LIMIT = 6_291_556


@gap(
    "answer-size",
    "A buffered answer over 6 MB is a function error, Function.ResponseSizeTooLarge.",
    f"{DOCS}/dg/gettingstarted-limits.html#function-configuration-deployment-and-execution",
)
def answer_size():
    inner = lam._execute_function

    def execute(function, event):
        result = inner(function, event)
        if not isinstance(result, dict) or result.get("error") or result.get("body") is None:
            return result
        body = result["body"]
        size = len(body) if isinstance(body, (str, bytes)) else len(json.dumps(body, ensure_ascii=False).encode())
        if size <= ANSWER_LIMIT:
            return result
        message = f"Response payload size exceeded maximum allowed payload size ({ANSWER_LIMIT} bytes)."
        return {**result, "error": True, "body": {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message}}

    lam._execute_function = execute


@gap(
    "event-size",
    "An event over 6 MB is refused with RequestTooLargeException.",
    f"{DOCS}/api/API_Invoke.html#API_Invoke_Errors",
)
def event_size():
    inner = lam._invoke

    async def invoke(name, event, headers, *rest, **named):
        if int(headers.get("content-length") or 0) > LIMIT:
            return lam.error_response_json("RequestTooLargeException", f"Request must be smaller than {LIMIT} bytes for the InvokeFunction operation", 413)
        return await inner(name, event, headers, *rest, **named)

    lam._invoke = invoke


@gap(
    "null-failures",
    "A null batchItemFailures is a batch that has been processed.",
    f"{DOCS}/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting",
)
def null_failures():
    inner = lam._execute_function

    def execute(function, event):
        result = inner(function, event)
        body = result.get("body") if isinstance(result, dict) else None
        if isinstance(body, dict) and body.get("batchItemFailures", ()) is None:
            body["batchItemFailures"] = []
        return result

    lam._execute_function = execute


@gap(
    "fifo-groups",
    "A FIFO queue has one batch in flight for each message group: a slow one holds up no other.",
    f"{DOCS}/dg/services-sqs-scaling.html",
)
def fifo_groups():
    # The queue hands out no message of a group that has one in flight, so that batches at once never
    # share a group and each stays in order.
    inner, groups = lam._sqs_esm_concurrency, 32

    def concurrency(mapping, function, config, queue=None):
        if not (queue or {}).get("is_fifo"):
            return inner(mapping, function, config, queue)
        scaling = mapping.get("ScalingConfig") or {}
        return inner({**mapping, "ScalingConfig": {"MaximumConcurrency": groups, **scaling}}, function, config)

    lam._sqs_esm_concurrency = concurrency


@gap(
    "reserved-by-template",
    "ReservedConcurrentExecutions of a template is the function's limit.",
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-function.html",
)
def reserved_by_template():
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]
    create, update = handlers["create"], handlers["update"]

    def reserve(made, properties):
        function = lam._functions.get(made[0] if isinstance(made, tuple) else made)
        if function is not None:
            limit = properties.get("ReservedConcurrentExecutions")
            function["concurrency"] = None if limit is None else int(limit)
        return made

    def created(name, properties, stack):
        return reserve(create(name, properties, stack), properties)

    def updated(physical, old, new, *rest, **named):
        return reserve(update(physical, old, new, *rest, **named), new)

    handlers["create"], handlers["update"] = created, updated


@gap(
    "update-in-flight",
    "An update, or the end of a function, leaves invocations in flight to end by themselves.",
    f"{DOCS}/dg/lambda-runtime-environment.html",
)
def update_in_flight():
    inner = runtime.kill_workers

    def retire(worker):
        # Nobody hands it out any more. What it does it may do for as long as a function may run.
        end = time.monotonic() + 900
        while worker.in_use and time.monotonic() < end:
            time.sleep(0.05)
        inner([worker])

    def kill(workers):
        for worker in [w for w in workers if w.in_use]:
            threading.Thread(target=retire, args=(worker,), daemon=True).start()
        inner([w for w in workers if not w.in_use])

    runtime.kill_workers = kill


@gap(
    "url-address",
    "A function URL is answered at the address that it says.",
    f"{DOCS}/dg/urls-invocation.html",
)
def url_address():
    create = lam._create_function_url_config

    def created(name, data, qualifier):
        answer = create(name, data, qualifier)
        if answer[0] != 201:
            return answer
        config = lam._function_urls[lam._url_config_key(name, qualifier)]
        here = f".{os.environ.get('MINISTACK_HOST', 'localhost')}:{os.environ['GATEWAY_PORT']}/"
        config["FunctionUrl"] = config["FunctionUrl"].replace("https://", "http://").replace(".on.aws/", here)
        return lam.json_response(config, status=201)

    lam._create_function_url_config = created
