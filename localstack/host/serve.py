"""LocalStack itself, without Docker: its last free release (community 4.14.0) in host mode, for tests.

    python3 localstack/host/serve.py serve [--port N] [--log FILE]
    python3 localstack/host/serve.py up|down [--port N]
    python3 localstack/host/serve.py where|prepare|python

localstack/server.py says what the commands do. It needs Python 3.12 or 3.13, a JDK of 17 or newer, and Maven for
the first start: DynamoDB is Amazon's own DynamoDB Local, and JSONata is evaluated in Java.

LocalStack is started inside this process, after some of its functions were replaced. They are internals: that is
safe only while requirements.txt pins it.
"""

import glob
import hashlib
import os
import platform
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import server  # noqa: E402

JAVA = os.path.join(HERE, "java")
OLDEST, NEWEST = (3, 12), (3, 13)
JDK = 17


def python():
    """Finds a Python that LocalStack runs on; the one that runs this may be older."""
    minors = range(NEWEST[1], OLDEST[1] - 1, -1)
    found = [sys.executable, *(f"python3.{minor}" for minor in minors)]
    for minor in minors:
        # Where pyenv keeps them, whichever of them it has chosen for this folder.
        found += glob.glob(os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions", f"3.{minor}.*", "bin", "python3"))
    fits = []
    for candidate in filter(None, map(shutil.which, found)):
        numbers = server.version(candidate).split(".")
        if len(numbers) > 2 and OLDEST <= (int(numbers[0]), int(numbers[1])) <= NEWEST:
            if server.quiet([candidate, "-c", "import ensurepip, venv"]):
                return candidate
            fits.append(candidate)
    if fits:
        return fits[0]  # what it lacks is said where it is used
    server.missing("LocalStack needs Python 3.12 or 3.13, as python3.12 or python3.13 on the PATH or in pyenv")


def home():
    """Returns the folder of a JDK."""
    javac = shutil.which("javac", path=os.pathsep.join([os.path.join(os.environ.get("JAVA_HOME", ""), "bin"), os.environ.get("PATH", "")]))
    if javac:
        said = subprocess.run([javac, "-version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.split()
        if len(said) > 1 and said[1].split(".")[0].isdigit() and int(said[1].split(".")[0]) >= JDK:
            return os.path.dirname(os.path.dirname(os.path.realpath(javac)))
    server.missing(f"LocalStack needs a JDK of {JDK} or newer, javac on the PATH or JAVA_HOME set; on Debian: apt-get install default-jdk-headless")


def jars():
    """Returns the folder of the Java libraries, which it fetches if need be, and of Loopback."""
    jdk, mark = home(), b""
    if platform.system() == "Linux" and platform.machine() != "x86_64":
        server.missing("DynamoDB Local has a native library for Linux on x86_64 and for macOS alone, as Maven Central has it")
    for name in sorted(os.listdir(JAVA)):
        with open(os.path.join(JAVA, name), "rb") as file:
            mark += hashlib.sha256(file.read()).digest()
    return server.installed("java", mark + jdk.encode(), lambda folder: fetch(jdk, folder))


def fetch(jdk, folder):
    maven = shutil.which("mvn") or server.missing("Maven is missing, which fetches DynamoDB Local; on Debian: apt-get install maven")
    os.makedirs(folder)
    for name in ("dynamodb", "jsonata"):
        into = os.path.join(folder, name)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        server.install([maven, "--batch-mode", "--quiet", "--file", os.path.join(JAVA, name + ".pom.xml"), goal, "-DoutputDirectory=" + into], env={**os.environ, "JAVA_HOME": jdk})
    libraries = os.path.join(folder, "dynamodb")
    for native in glob.glob(os.path.join(libraries, "libsqlite4java-*-1.0.392.*")):
        # The name under which it is looked for.
        shutil.copy(native, native.replace("-1.0.392", ""))
    server.install([os.path.join(jdk, "bin", "javac"), "--release", str(JDK), "-d", libraries, "-cp", os.path.join(libraries, "*"), os.path.join(JAVA, "Loopback.java")])


def environ(data, port):
    address = f"{server.HOST}:{port}"
    return {
        "PERDURE_JAVA": home(),
        "PERDURE_JARS": jars(),
        "FILESYSTEM_ROOT": os.path.join(data, "fs"),
        "GATEWAY_LISTEN": address,
        "LOCALSTACK_HOST": f"localhost:{port}",
        # Else it takes a machine that is a container for one of its own images, and writes to system folders.
        "OVERRIDE_IN_DOCKER": "0",
        # No Docker, no name server, no telemetry, nothing from the network.
        "DOCKER_HOST": "unix://" + os.path.join(data, "docker"),
        "DNS_ADDRESS": "0",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DDB_LOCAL_TELEMETRY": "0",
        "LS_LOG": os.environ.get("LS_LOG", "warning"),
        # How long an idle environment of a function stays: no test waits for its end.
        "LAMBDA_KEEPALIVE_MS": "600000",
        "PROVIDER_OVERRIDE_DYNAMODB": "v2",
        "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2",
        "DYNAMODB_IN_MEMORY": "1",
        "DYNAMODB_HEAP_SIZE": "512m",
        # Types that it does not have: what was really deployed is read back by a test.
        "CFN_IGNORE_UNSUPPORTED_RESOURCE_TYPES": "1",
    }


def serve(args):
    import changes

    changes.make()

    from localstack.logging.setup import setup_logging_from_config
    from localstack.runtime import current

    setup_logging_from_config()
    current.initialize_runtime().run()


def ending():
    import executor

    executor.end_all()


if __name__ == "__main__":
    server.run(
        server.Server(
            doc=__doc__,
            script=__file__,
            pins=os.path.join(HERE, "requirements.txt"),
            health="/_localstack/health",
            python=python,
            environ=environ,
            serve=serve,
            extra=jars,
            ending=ending,
        )
    )
