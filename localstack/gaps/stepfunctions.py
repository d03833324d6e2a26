"""Step Functions: tokens, time limits, retries, names and sizes."""

import contextvars
import json
import random
import re
import time

from ministack.services import stepfunctions as sfn

from . import gap

DOCS = "https://docs.aws.amazon.com/step-functions/latest"
KIB256 = 262_144

# The execution whose states the current thread walks, and the callback that it waits for. Threads of a
# Map copy both.
execution = contextvars.ContextVar("execution")
callback = contextvars.ContextVar("callback", default=None)


class Stopped(Exception):
    """The execution is over: nothing may catch, retry or go on. It is no _ExecutionError, so nothing does."""


@gap(
    "state-sizes",
    "What a state or a task returns has at most 256 KiB, else States.DataLimitExceeded, which States.ALL does not"
    " catch.",
    f"{DOCS}/dg/concepts-error-handling.html#error-handling-error-representation",
)
def state_sizes():
    name = "States.DataLimitExceeded"

    def check(value):
        if len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > KIB256:
            raise sfn._ExecutionError(name, "the result exceeds the maximum number of bytes")
        return value

    def state(inner):
        def execute(*arguments):
            output, following = inner(*arguments)
            return check(output), following

        return execute

    def finder(inner):
        def find(handlers, error, *rest):
            if error == name:
                handlers = [h for h in handlers if name in h["ErrorEquals"]]
            return inner(handlers, error, *rest)

        return find

    call = sfn._call_lambda
    sfn._call_lambda = lambda reference, event: check(call(reference, event))
    for function in ("_execute_pass", "_execute_task", "_execute_map", "_execute_parallel"):
        setattr(sfn, function, state(getattr(sfn, function)))
    for function in ("_find_matching_retrier", "_find_matching_catcher"):
        setattr(sfn, function, finder(getattr(sfn, function)))


@gap(
    "task-attempts",
    "Each attempt of a task has a token of its own; a retry waits for at most MaxDelaySeconds, and for any time"
    " up to that with JitterStrategy FULL; nothing of a stopped execution is tried again.",
    f"{DOCS}/dg/concepts-error-handling.html#error-handling-retrying-after-an-error",
)
def task_attempts():
    once = sfn._execute_task

    def execute_task(state, raw, run, context):
        retriers = state.get("Retry", [])
        single = {key: value for key, value in state.items() if key not in ("Retry", "Catch")}
        counts = {}
        while True:
            if run["status"] != "RUNNING":
                raise Stopped
            context["State"] = Entered(context["State"], sum(counts.values()))
            try:
                return once(single, raw, run, context)
            except sfn._ExecutionError as error:
                retrier, index = sfn._find_matching_retrier(retriers, error.error, counts)
                if retrier is None:
                    return caught(state, raw, context, error)
                sfn._scaled_sleep(delay(retrier, counts.get(index, 0)))
                counts[index] = counts.get(index, 0) + 1

    sfn._execute_task = execute_task


class Entered(dict):
    """$$.State of one attempt. The attempt believes to be the first and says so; this does not listen."""

    def __init__(self, state, retries):
        super().__init__(state, RetryCount=retries)

    def __setitem__(self, key, value):
        if key != "RetryCount":
            super().__setitem__(key, value)


def delay(retrier, count):
    seconds = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** count
    seconds = min(seconds, retrier.get("MaxDelaySeconds", seconds))
    return random.uniform(0, seconds) if retrier.get("JitterStrategy") == "FULL" else seconds


def caught(state, raw, context, error):
    catcher = sfn._find_matching_catcher(state.get("Catch", []), error.error)
    if not catcher:
        raise error
    language = sfn._state_query_language(state, context)
    output = sfn._apply_catcher(catcher, raw, context, language, {"Error": error.error, "Cause": error.cause})
    return output, catcher["Next"]


@gap(
    "aborted-for-good",
    "A stopped execution is ABORTED, whatever becomes of the task that it was in.",
    f"{DOCS}/apireference/API_StopExecution.html",
)
def aborted_for_good():
    fail = sfn._fail_execution

    def fail_execution(run, error, cause):
        if run["status"] == "RUNNING":
            fail(run, error, cause)

    sfn._fail_execution = fail_execution


@gap(
    "time-limits-by-reference",
    "TimeoutSecondsPath and HeartbeatSecondsPath, and both fields as JSONata, are read from the state's input.",
    f"{DOCS}/dg/state-task.html#task-state-fields",
)
def time_limits_by_reference():
    inner = sfn._execute_task

    def execute_task(state, raw, run, context):
        limits = {}
        for key in ("TimeoutSeconds", "HeartbeatSeconds"):
            if key + "Path" in state:
                limits[key] = sfn._resolve_path(state[key + "Path"], sfn._apply_input_path(state, raw, context))
            elif isinstance(state.get(key), str):
                limits[key] = sfn._apply_jsonata_template(state[key], raw, context)
        return inner({**state, **limits}, raw, run, context)

    sfn._execute_task = execute_task


@gap(
    "heartbeats",
    "A task under a token that does not report within HeartbeatSeconds fails with States.HeartbeatTimeout.",
    f"{DOCS}/apireference/API_SendTaskHeartbeat.html",
)
def heartbeats():
    inner = sfn._invoke_with_callback

    def invoke(resource, data, token, state):
        limit = state.get("HeartbeatSeconds")
        if limit:
            spawn(watch_heart, token, limit)
        return inner(resource, data, token, state)

    def watch_heart(token, limit):
        beat, seen = time.monotonic(), None
        info = None
        while info is None or token in sfn._task_tokens:
            info = sfn._task_tokens.get(token) or info
            if info and info["event"].wait(0.05):
                return
            if info and info["heartbeat"] != seen:
                beat, seen = time.monotonic(), info["heartbeat"]
            if time.monotonic() > beat + limit:
                if info:
                    settle(info, "States.HeartbeatTimeout", "")
                return

    send = sfn._send_task_heartbeat

    def send_heartbeat(data):
        answer = send(data)
        info = sfn._task_tokens.get(data.get("taskToken"))
        if info:
            # Two within the same second are two.
            info["heartbeat"] = time.monotonic()
        return answer

    sfn._invoke_with_callback = invoke
    sfn._send_task_heartbeat = send_heartbeat


def settle(info, error, cause):
    info["error"] = {"Error": error, "Cause": cause}
    info["event"].set()


def spawn(function, *arguments):
    """Starts a thread in the account and region of this one."""
    context = contextvars.copy_context()
    sfn.threading.Thread(target=context.run, args=(function, *arguments), daemon=True).start()


@gap(
    "throttled-function",
    "A function at its limit of concurrency fails the task with Lambda.TooManyRequestsException.",
    f"{DOCS}/dg/connect-lambda.html",
)
def throttled_function():
    call = sfn._call_lambda

    def call_lambda(reference, event):
        try:
            return call(reference, event)
        except sfn._ExecutionError as error:
            if error.error == "Lambda.Unknown" and "TooManyRequestsException" in (error.cause or ""):
                raise sfn._ExecutionError("Lambda.TooManyRequestsException", error.cause) from None
            raise

    sfn._call_lambda = call_lambda


@gap(
    "callback-function-fails",
    "A function that fails when it is handed a token fails the task at once.",
    f"{DOCS}/dg/connect-to-resource.html#connect-wait-token",
)
def callback_function_fails():
    inner, call = sfn._invoke_with_callback, sfn._call_lambda

    def invoke(resource, data, token, state):
        mark = callback.set(token)
        try:
            return inner(resource, data, token, state)
        finally:
            callback.reset(mark)

    def call_lambda(reference, event):
        token = callback.get()
        try:
            return call(reference, event)
        except sfn._ExecutionError as error:
            # The caller swallows this and waits for the token.
            if info := token and sfn._task_tokens.get(token):
                settle(info, error.error, error.cause)
            raise

    sfn._invoke_with_callback, sfn._call_lambda = invoke, call_lambda


@gap(
    "token-life",
    "A token ends with its task: used, expired, or of an execution that was stopped, it is answered TaskTimedOut.",
    f"{DOCS}/apireference/API_SendTaskSuccess.html#API_SendTaskSuccess_Errors",
)
def token_life():
    spent, owners = set(), {}
    run, inner, stop = sfn._run_execution, sfn._invoke_with_callback, sfn._stop_execution

    def run_execution(arn):
        execution.set(arn)
        run(arn)

    def invoke(resource, data, token, state):
        owners[token] = execution.get(None)
        try:
            result = inner(resource, data, token, state)
        finally:
            spent.add(token)
            owners.pop(token, None)
        return result

    def stop_execution(data):
        answer = stop(data)
        arn = data.get("executionArn")
        for token in [t for t, owner in list(owners.items()) if owner == arn]:
            spent.add(token)
            if info := sfn._task_tokens.get(token):
                settle(info, "States.Runtime", "the execution was stopped")
        return answer

    def sender(send):
        def answer(data):
            token = data.get("taskToken")
            info = sfn._task_tokens.get(token)
            # The first answer ends the task, though its thread has not noticed yet.
            if token in spent or info and info["event"].is_set():
                return sfn.error_response_json("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'", 400)
            return send(data)

        return answer

    sfn._run_execution, sfn._invoke_with_callback, sfn._stop_execution = run_execution, invoke, stop_execution
    for name in ("_send_task_success", "_send_task_failure", "_send_task_heartbeat"):
        setattr(sfn, name, sender(getattr(sfn, name)))


@gap(
    "start-again",
    "StartExecution with the name and input of an execution that still runs answers with that execution.",
    f"{DOCS}/apireference/API_StartExecution.html",
)
def start_again():
    inner = sfn._start_execution

    def start(data):
        machine, name = sfn._resolve_state_machine_arn(data.get("stateMachineArn", "")), data.get("name")
        for arn, run in list(sfn._executions.items()):
            same = name and run["name"] == name and run["stateMachineArn"] == machine
            if same and run["status"] == "RUNNING" and run["input"] == data.get("input", "{}"):
                return sfn.json_response({"executionArn": arn, "startDate": run["startDate"]})
        return inner(data)

    sfn._start_execution = start


@gap(
    "execution-names",
    "A name has 1 to 80 characters and none of: whitespace, brackets, wildcards, \" # % \\ ^ | ~ ` $ & , ; : / and"
    " control characters.",
    f"{DOCS}/apireference/API_StartExecution.html#API_StartExecution_RequestParameters",
)
def execution_names():
    inner = sfn._start_execution
    forbidden = re.compile(r'[\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f\ufffe\uffff]')

    def start(data):
        name = data.get("name")
        if name is not None and not 1 <= len(name) <= 80:
            return sfn.error_response_json("ValidationException", "Member must have length between 1 and 80", 400)
        if name and forbidden.search(name):
            return sfn.error_response_json("InvalidName", f"Invalid Name: '{name}'", 400)
        return inner(data)

    sfn._start_execution = start


@gap(
    "input-sizes",
    "The input of an execution and the output of a task have at most 256 KiB.",
    f"{DOCS}/dg/service-quotas.html#service-limits-task-executions",
)
def input_sizes():
    def limited(inner, field):
        def request(data):
            if len((data.get(field) or "").encode()) > KIB256:
                return sfn.error_response_json("ValidationException", f"{field}: at most {KIB256} bytes", 400)
            return inner(data)

        return request

    sfn._start_execution = limited(sfn._start_execution, "input")
    sfn._send_task_success = limited(sfn._send_task_success, "output")
