"""Deploys the stack of this repository to an endpoint, as "cdk bootstrap" and "cdk deploy" do it to AWS.

    python3 localstack/deploy.py --endpoint http://127.0.0.1:4566 --outputs FILE [-c key=value]... [--ldflags TEXT]

What it builds is in .cache/localstack and not in bin, so that it disturbs no other build and several may run at
once. It prints how long each step took. With --endpoint aws it goes to AWS itself, by the AWS CLI's own settings.
Exit status 3 means that this machine lacks something that the line on standard error names.
"""

import argparse
import contextlib
import fcntl
import filecmp
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from server import missing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, ".cache", "localstack")
NODE = os.path.join(".cache", "node", "node_modules")
CDK = os.path.join(ROOT, NODE, ".bin", "cdk")
# An endpoint is never behind a proxy.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
GOARCH = {"arm64": "arm64", "x86_64": "amd64"}


def main():
    args = arguments()
    for tool in ("go", "make", "node", "npm"):
        if not shutil.which(tool):
            missing(f"{tool} is not installed; a deployment takes Go, make, and Node 20 or newer with npm")
    os.makedirs(CACHE, exist_ok=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cdk-", dir=CACHE) as folder:
        with locked():
            timed("node", run, ["make", "-s", os.path.join(NODE, ".package-lock.json")])
        # Bootstrapping needs nothing that is built.
        bootstrap = Background("bootstrap", run, [CDK, "bootstrap", *account(args)], settings(args), folder)
        with locked():
            functions, app = timed("build", build, args)
        bootstrap.wait()
        deploy = [CDK, "deploy", "--app", app, "--output", os.path.join(folder, "out"), "--outputs-file", os.path.abspath(args.outputs)]
        deploy += ["--require-approval", "never", "--method", "direct", "--progress", "events", "--context", f"assets={functions}"]
        for pair in context(args):
            deploy += ["--context", pair]
        timed("deploy", run, deploy, settings(args))
    print(f"{'in all':10} {time.monotonic() - start:5.1f} s", flush=True)
    tell(args)
    return 0


REACH = """
The stack answers. In a shell:

  export PERDURE_URL={url}
  export PERDURE_KEY={key}
  curl -sS -H "Authorization: Bearer $PERDURE_KEY" $PERDURE_URL/v1/me
  curl -sS -H "Authorization: Bearer $PERDURE_KEY" -H "Content-Type: application/json" \\
    $PERDURE_URL/v1/sessions -d '{{"id": "walk"}}'
  curl -sSN -H "Authorization: Bearer $PERDURE_KEY" {stream}/v1/sessions/walk/stream
{client}  bin/perdure doctor"""


def tell(args):
    """Says how to reach what was deployed. The key of a stack on AWS is for its owner to ask for."""
    with open(args.outputs) as file:
        (outputs,) = json.load(file).values()
    key, name = "<pk_ and its id and _ and its secret>", outputs["AdminKeySecret"]
    if args.endpoint != "aws":
        entry = json.loads(secret(args.endpoint, name))
        key = f"pk_{entry['id']}_{entry['secret']}"
    client = "" if os.path.exists(os.path.join(ROOT, "bin", "perdure")) else "  make build\n"
    print(REACH.format(url=outputs["ApiUrl"].rstrip("/"), key=key, stream=outputs["StreamUrl"].rstrip("/"), client=client))
    if args.endpoint == "aws":
        print(f"\nThe key is in  aws secretsmanager get-secret-value --query SecretString --output text --secret-id {name}")


def secret(endpoint, name):
    """Reads an entry of an emulator's Secrets Manager, which looks at no signature."""
    scope = "Credential=test/20200101/us-east-1/secretsmanager/aws4_request"
    request = urllib.request.Request(
        endpoint,
        data=json.dumps({"SecretId": name}).encode(),
        headers={
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": "secretsmanager.GetSecretValue",
            "Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0",
        },
    )
    with DIRECT.open(request, timeout=30) as answer:
        return json.load(answer)["SecretString"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", required=True, help="URL of the endpoint, or aws")
    parser.add_argument("--outputs", required=True, help="file that the stack's outputs are written to")
    parser.add_argument("--ldflags", default="", help="for the linker of the functions: another build is an update")
    parser.add_argument("-c", "--context", action="append", default=[], help="key=value, as for the CDK")
    args = parser.parse_args()
    args.given = dict(pair.split("=", 1) for pair in args.context)
    here = "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"
    args.arch = args.given.setdefault("arch", "arm64" if args.endpoint == "aws" else here)
    return args


def context(args):
    """An emulator keeps nothing and knows no sampling rules; what tests talk to is on this machine, and nobody
    waits twenty minutes for a deletion's second round. LocalStack's free edition has no HTTP APIs, and leaves them
    out without a word."""
    if args.endpoint != "aws":
        for key, value in {"xray": "0", "keep": "0", "allowPrivate": "1", "logDays": "1", "purgeAgainSeconds": "5"}.items():
            args.given.setdefault(key, value)
        if edition(args.endpoint) == "community":
            args.given.setdefault("frontDoor", "url")
    return [f"{key}={value}" for key, value in args.given.items()]


def edition(endpoint):
    """Asks a LocalStack what it is. What does not answer there is none."""
    try:
        with DIRECT.open(endpoint + "/_localstack/health", timeout=30) as answer:
            return json.load(answer).get("edition")
    except (urllib.error.HTTPError, ValueError):
        return None
    except OSError as error:
        raise SystemExit(f"nothing answers at {endpoint}: {error}") from None


def account(args):
    """Of an emulator the account is known. Of AWS the CDK asks, for which it wants no app."""
    return ["aws://000000000000/us-east-1", "--app", ""] if args.endpoint != "aws" else []


def settings(args):
    environ = dict(os.environ, CI="true", JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION="20")
    if args.endpoint == "aws":
        return environ
    for name in [n for n in environ if n.startswith("AWS_")]:
        del environ[name]
    return {
        **environ,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": args.endpoint,
        "AWS_ENDPOINT_URL_S3": args.endpoint,
        # There are no settings of the user's that could matter.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def build(args):
    """Builds functions and the CDK app. A build has a folder of its own for its flags."""
    mark = hashlib.sha256(args.ldflags.encode()).hexdigest()[:8]
    binaries = os.path.join(CACHE, f"build-{args.arch}-{mark}")
    functions, app = os.path.join(binaries, "functions"), os.path.join(CACHE, "infra")
    environ = dict(os.environ, CGO_ENABLED="0", GOOS="linux", GOARCH=GOARCH[args.arch])
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {args.ldflags}".strip(), "-tags", "lambda.norpc"]
    os.makedirs(os.path.join(binaries, "bin"), exist_ok=True)
    names = [n for n in os.listdir(os.path.join(ROOT, "functions")) if os.path.exists(os.path.join(ROOT, "functions", n, "main.go"))]
    run(["go", "build", *flags, "-o", os.path.join(binaries, "bin") + os.sep, *(f"./functions/{n}" for n in names)], environ)
    for name in names:
        os.makedirs(os.path.join(functions, name), exist_ok=True)
        replace(os.path.join(binaries, "bin", name), os.path.join(functions, name, "bootstrap"))
    run(["go", "build", "-o", app, "./infra"])
    return functions, app


def replace(source, target):
    """Puts a file in place at once, if it is another: somebody may be reading what is there, and the whole folder that
    it is in, so nothing else may ever be seen in that."""
    if os.path.exists(target) and filecmp.cmp(source, target, shallow=False):
        return
    shutil.copy2(source, source + ".new")
    os.replace(source + ".new", target)


def run(command, environ=None, folder=ROOT):
    result = subprocess.run(command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}")


def timed(name, function, *arguments):
    start = time.monotonic()
    result = function(*arguments)
    print(f"{name:10} {time.monotonic() - start:5.1f} s", flush=True)
    return result


class Background:
    """A step beside the others. What it raises is raised where it is waited for."""

    def __init__(self, *step):
        self.error = None
        self.thread = threading.Thread(target=self.run, args=step)
        self.thread.start()

    def run(self, *step):
        try:
            timed(*step)
        except BaseException as error:
            self.error = error

    def wait(self):
        self.thread.join()
        if self.error:
            raise self.error


@contextlib.contextmanager
def locked():
    with open(os.path.join(CACHE, "deploy.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
