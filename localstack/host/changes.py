"""What is replaced in LocalStack 4.14.0 so that it runs on this machine alone: where it listens, and its two uses
of Java; what makes it slow; and where it fails when much goes on at once. How functions run is executor.py."""

import contextlib
import functools
import glob
import os
import socket
import subprocess

import executor

JAVA, JARS = os.environ["PERDURE_JAVA"], os.environ["PERDURE_JARS"]


def make():
    executor.install()
    health()
    gateway()
    dynamodb()
    jsonata()
    jsonpath()
    tokens()


def health():
    """Says which edition this is, as its image does: tests ask for it."""
    from localstack.services.internal import HealthResource

    original = HealthResource.on_get

    def on_get(self, request):
        return {**original(self, request), "edition": "community"}

    HealthResource.on_get = on_get


def gateway():
    """Listens on the socket that is bound already. LocalStack itself, told of an address, takes its port on every
    one: it hands Twisted no interface."""
    from localstack.runtime.server.twisted import TwistedRuntimeServer
    from rolo.serving.twisted import TwistedGateway
    from twisted.internet import reactor

    def register(self, gateway, listen, ssl_creds=None):
        with socket.socket(fileno=int(os.environ["PERDURE_LISTENER"])) as listener:
            listener.setblocking(False)
            listener.listen(1024)
            reactor.adoptStreamPort(listener.fileno(), socket.AF_INET, TwistedGateway(gateway))  # a duplicate of it

    TwistedRuntimeServer.register = register


def dynamodb():
    """Starts DynamoDB Local from Maven's jars by Loopback, in this process's group."""
    from localstack.services.dynamodb.packages import DynamoDBLocalPackageInstaller
    from localstack.services.dynamodb.server import DynamodbServer
    from localstack.utils.threads import start_thread

    folder = os.path.join(JARS, "dynamodb")

    def start(self):
        port = ["-port", str(self.port), "-inMemory", "-disableTelemetry"]
        command = [os.path.join(JAVA, "bin", "java"), f"-Xmx{self.heap_size}", f"-Djava.library.path={folder}"]
        command += ["-cp", os.pathsep.join([folder, os.path.join(folder, "*")]), "Loopback", *port]
        # Its input ends with this process, and so does it. Its complaints go into the log.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

        def wait(*_):
            with contextlib.suppress(Exception):
                process.wait()
            self._stopped.set()

        def stop(*_):
            process.kill()

        thread = start_thread(wait, name="dynamodb-local")
        thread.on_stop, thread.auto_restart, thread.process = stop, False, process
        return thread

    DynamodbServer.do_start_thread = start
    DynamodbServer.do_shutdown = lambda self: self._thread.process.kill()
    DynamoDBLocalPackageInstaller.install = lambda self, target=None: None


def jsonata():
    """Evaluates JSONata with Maven's jars and this machine's Java. Without -Xrs, Java takes the signals that end
    this process for itself."""
    import jpype
    from localstack.services.stepfunctions.packages import JSONataPackageInstaller

    JSONataPackageInstaller.install = lambda self, target=None: None
    JSONataPackageInstaller.get_installed_dir = lambda self: os.path.join(JARS, "jsonata")
    JSONataPackageInstaller.get_java_home = lambda self: JAVA
    JSONataPackageInstaller.get_java_lib_path = lambda self: library()
    original = jpype.startJVM

    def start(path, *options, **more):
        return original(path, "-Xrs", *options, **more)

    jpype.startJVM = start


def jsonpath():
    """Parses each path once. The parser's tables are made anew for each, which takes 13 ms: more than all else that a
    state without a task does."""
    from localstack.services.stepfunctions.asl.utils import json_path

    json_path.parse = functools.lru_cache(maxsize=1024)(json_path.parse)


def tokens():
    """Looks for a token among the executions that have begun. One that is just being started has no environment yet,
    and every token, whosever it is, was answered with 500 for it."""
    from localstack.services.stepfunctions.provider import StepFunctionsProvider

    def executions(self, context, execution_status=None):
        every = list(self.get_store(context).executions.values())
        if execution_status is None:
            return every
        return [e for e in every if e.exec_status == execution_status and e.exec_worker and e.exec_worker.env]

    StepFunctionsProvider._get_executions = executions


def library():
    for pattern in ("lib/server/libjvm.*", "lib/libjli.*"):
        for path in sorted(glob.glob(os.path.join(JAVA, pattern))):
            if path.endswith((".so", ".dylib")):
                return path
    raise RuntimeError(f"{JAVA} has no library of Java's virtual machine")
