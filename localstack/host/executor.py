"""Lambda functions of LocalStack without Docker: the bootstrap of an OS-only runtime, run as a process.

An Executor is one execution environment. It starts the function's bootstrap (sandbox.py), serves it the Lambda
Runtime API (runtimeapi.py), gives it one invocation after the other, and a new process after one that has ended.
Function URLs stream (streams.py). Nothing isolates functions from this machine or from each other: memory, CPU and
architecture are not limited, and layers are not there. What functions see of it is their own folder, a PATH, and
the addresses of LocalStack and of the Runtime API.

It leans on internals of LocalStack 4.14.0 and is safe only while that is pinned: RuntimeExecutor and the manager of
its plugins, what ExecutionEnvironment makes of variables and names, LambdaService.invoke, the assignment service's
table, the order in which a version stops, the log handler's loop, and the router of function URLs.
"""

import os
import resource
import shutil
import tempfile
import threading
import time
from concurrent.futures import Future

import metrics
import records
import runtimeapi
import sandbox
import streams
from localstack import config
from localstack.aws.api.lambda_ import RequestTooLargeException, ServiceException
from localstack.services.lambda_.invocation import assignment, runtime_executor
from localstack.services.lambda_.invocation.execution_environment import ExecutionEnvironment
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.logs import QUEUE_SHUTDOWN, LogHandler, LogItem
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

NAME = "process"
# How long a process may take until it first asks for work.
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
INIT_SECONDS = 10
FILES = 16384
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
REQUEST_LIMIT, EVENT_LIMIT = 6 * 1024 * 1024, 1024 * 1024
# What LocalStack tells its own init process. A function on AWS sees none of it, nor the name of a runtime if that
# has only an operating system.
HIDDEN = ("LOCALSTACK_", "EDGE_PORT", "AWS_LAMBDA_FUNCTION_TIMEOUT", "AWS_EXECUTION_ENV")


def install():
    """Makes LocalStack run functions so. It is called before LocalStack's runtime starts."""
    config.LAMBDA_RUNTIME_EXECUTOR = NAME
    runtime_executor.EXECUTOR_PLUGIN_MANAGER = Plugins()
    streams.install()
    metrics.install()
    limit_requests()
    original = assignment.AssignmentService.__init__

    def init(self):
        original(self)
        self.environments.default_factory = Environments

    assignment.AssignmentService.__init__ = init
    LogHandler.stop = flush
    ExecutionEnvironment.get_log_group_name = log_group
    open_more()


def open_more():
    """Raises how many files may be open: an environment has a pipe, a port and a connection or two, and talks to this
    process by more of them."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(most, FILES)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def end_all():
    """Ends every process of a function. No other starts any more."""
    sandbox.end_all()


class Plugins:
    """Stands for the manager of plugins that executors come from."""

    def exists(self, name):
        return name == NAME

    def load(self, name):
        return Plugin()


class Plugin:
    def load(self):
        return Executor


class Environments(dict):
    """A version's environments. LocalStack goes through them while other threads add some."""

    def values(self):
        return list(super().values())


def log_group(self):
    """Returns the group that a function logs to, which LocalStack takes for the default always."""
    settings = self.function_version.config.logging_config or {}
    return settings.get("LogGroup") or f"/aws/lambda/{self.function_version.id.function_name}"


def flush(self):
    """Stops the writer of a version's log when all is written. LocalStack's own throws away what waits."""
    if self._thread:
        self.log_queue.put(QUEUE_SHUTDOWN)
        self._thread.join(2)
        self._thread = None


def limit_requests():
    from localstack.services.lambda_.invocation.lambda_service import LambdaService

    original = LambdaService.invoke

    def invoke(self, *args, payload=None, invocation_type=None, **more):
        size = len(payload or b"")
        if size > REQUEST_LIMIT:
            raise RequestTooLargeException(f"Request must be smaller than {REQUEST_LIMIT} bytes for the InvokeFunction operation")
        if invocation_type == "Event" and size > EVENT_LIMIT:
            raise RequestTooLargeException(f"{size} byte payload is too large for the Event invocation type (limit {EVENT_LIMIT} bytes)")
        return original(self, *args, payload=payload, invocation_type=invocation_type, **more)

    LambdaService.invoke = invoke


class Failed(Exception):
    """The process has failed: the answer is not one of the function's own, or its start's last words."""

    def __init__(self, answer, why=""):
        super().__init__(why)
        self.answer = answer


class Executor(RuntimeExecutor):
    def __init__(self, id, function_version):
        super().__init__(id, function_version)
        self.timeout = function_version.config.timeout or 3
        self.box = None
        self.tried = False  # whether a process was ever started
        self.folder = self.task = None
        self.environ = {}
        self.writer = records.writer(function_version.config.logging_config or {})
        self.early = ""  # what the log of the next invocation begins with
        self.init = None  # how long the first process took to start, for the invocation that it was started for
        # LocalStack gives an environment one invocation at a time, but stops it whenever it likes.
        self.lock = threading.Lock()
        self.busy = self.stopped = False

    # What LocalStack calls.

    def start(self, env_vars):
        """Prepares the environment. The process is started by the first invocation, whose log its start belongs to;
        with provisioned concurrency, here."""
        self.folder = tempfile.mkdtemp(prefix="function-")
        self.task = self.code()
        temporary = os.path.join(self.folder, "tmp")
        os.mkdir(temporary)
        named = self.function_version.config.environment or {}
        theirs = {name: str(value) for name, value in env_vars.items() if value is not None}
        self.environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/opt/bin",
            "LANG": "en_US.UTF-8",
            "HOME": temporary,
            "TMPDIR": temporary,
            **{name: value for name, value in theirs.items() if name in named or not name.startswith(HIDDEN)},
            "LAMBDA_TASK_ROOT": self.task,
        }
        if "AWS_LAMBDA_LOG_LEVEL" in self.environ:
            self.environ["AWS_LAMBDA_LOG_LEVEL"] = self.environ["AWS_LAMBDA_LOG_LEVEL"].upper()
        if env_vars.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "provisioned-concurrency":
            try:
                self.boot("", INIT_SECONDS)
            except Failed as end:
                raise StatusErrorException("the function did not start", payload=end.answer.payload) from None

    def invoke(self, payload):
        id = payload["invoke-id"]
        call = runtimeapi.Call(id, payload["invoked-function-arn"], payload["trace-id"], payload["payload"].encode(), stream=streams.current())
        with self.lock:
            if self.stopped:
                raise ServiceException("the environment ended before it could run the invocation")  # a client asks again
            self.busy = True
        try:
            result = self.run(call)
            if self.stopped:
                self.keep(result)
            return result
        finally:
            with self.lock:
                self.busy = False
                stopped = self.stopped
            if stopped:
                self.clear()

    def stop(self):
        """Ends the environment: at once, or when the invocation that it runs is over. Code that is updated and
        functions that are deleted do not end what runs."""
        with self.lock:
            self.stopped = True
            busy = self.busy
        if not busy:
            self.clear()

    def get_address(self):
        return runtimeapi.HOST

    def get_endpoint_from_executor(self):
        return runtimeapi.HOST

    def get_runtime_endpoint(self):
        return ""

    def get_logs(self):
        return ""

    @classmethod
    def prepare_version(cls, function_version):
        settings = function_version.config
        if not (settings.runtime or "").startswith("provided"):
            raise ValueError(f"only OS-only runtimes (provided.*) run here, not {settings.runtime or settings.package_type}")
        settings.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        pass

    # An invocation.

    def run(self, call):
        self.first(call.id)
        begun, why, blamed = time.monotonic(), "", None
        try:
            answer = self.answer(call, begun + self.timeout)
        except Failed as end:
            answer, why, blamed = end.answer, str(end), end.answer.kind
        if call.stream:
            call.stream.end(answer.failed)
        size = self.function_version.config.memory_size
        report = records.Report(
            id=call.id,
            version=self.function_version.id.qualifier,
            duration=(time.monotonic() - begun) * 1000,
            size=size,
            used=min(self.box.high_water(), size) if self.box else 1,
            init=self.init,
            kind=blamed,
        )
        return InvocationResult(call.id, answer.payload, is_error=answer.failed, logs=self.log(report, why))

    def first(self, id):
        """Starts the first process, which has ten seconds for it. If it does not come up in them, another is tried
        in the time of the invocation, as on AWS."""
        self.init = None
        if self.tried:
            return
        begun = time.monotonic()
        try:
            self.boot(id, INIT_SECONDS)
            self.init = (time.monotonic() - begun) * 1000
        except Failed as end:
            self.early += self.printed() + self.writer.init((time.monotonic() - begun) * 1000, end.answer.kind)

    def answer(self, call, limit):
        while True:
            if self.box is None or self.box.gone.is_set():
                self.boot(call.id, limit - time.monotonic())
            call.deadline = int((time.time() + limit - time.monotonic()) * 1000)
            self.box.api.offer(call)
            try:
                answer = call.done.result(max(0, limit - time.monotonic()))
            except TimeoutError:
                raise self.timed_out(call.id) from None
            except runtimeapi.NotTaken:
                call.done = Future()
                self.box.gone.wait(5)
                continue
            if answer.why:
                self.box.gone.wait(5)
                raise failed(call.id, answer.kind, answer.why)
            return answer

    def boot(self, id, seconds):
        """Starts a process and waits until it asks for work."""
        self.tried = True
        self.early += self.printed()
        try:
            self.box = sandbox.Sandbox(self.task, self.environ)
        except OSError:
            self.box = None
            raise failed(id, "Runtime.InvalidEntrypoint", "Couldn't find valid bootstrap(s): [/var/task/bootstrap /opt/bootstrap]") from None
        try:
            self.box.api.ready.result(max(0, seconds))
        except TimeoutError:
            raise self.timed_out(id) from None
        except runtimeapi.InitFailed as end:
            self.end()
            if end.payload is not None:
                raise Failed(runtimeapi.Answer(end.payload, str(end)), end.payload.decode(errors="replace")) from None
            raise failed(id, runtimeapi.EXIT, str(end)) from None

    def timed_out(self, id):
        self.end()
        return failed(id, "Sandbox.Timedout", f"Task timed out after {self.timeout:.2f} seconds")

    def end(self):
        self.box.high_water()
        self.box.kill()
        self.box.gone.wait(5)

    # Its log.

    def printed(self):
        return self.box.output.take() if self.box else ""

    def log(self, report, why):
        """Returns all that is logged of an invocation."""
        early, self.early = self.early, ""
        return early + self.writer.start(report) + self.printed() + self.writer.end(report, why)

    def keep(self, result):
        """Writes the log of an invocation that outlived its version: LocalStack's own writer has ended by then."""
        settings, id = self.function_version.config, self.function_version.id
        writer = LogHandler(settings.role, id.region)
        writer.add_logs(LogItem(self.environ["AWS_LAMBDA_LOG_GROUP_NAME"], self.environ["AWS_LAMBDA_LOG_STREAM_NAME"], result.logs))
        writer.log_queue.put(QUEUE_SHUTDOWN)
        writer.run_log_loop()

    # Its folder.

    def code(self):
        """Returns a folder with the function's code that is the environment's own, so that it outlives an update."""
        code = self.function_version.config.code
        place = str(code.get_unzipped_code_location())
        if code.is_hot_reloading():
            return place
        task = os.path.join(self.folder, "task")
        shutil.copytree(place, task, symlinks=True, copy_function=link)
        return task

    def clear(self):
        if self.box:
            self.end()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def link(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def failed(id, kind, words):
    why = f"RequestId: {id} Error: {words}"
    return Failed(runtimeapi.Answer(runtimeapi.error(kind, why), kind), why)
