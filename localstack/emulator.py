"""An endpoint that answers as AWS does, for tests: MiniStack with its known gaps closed.

    python3 localstack/emulator.py serve [--port N] [--log FILE] [--leave GAP]...
    python3 localstack/emulator.py up|down [--port N]
    python3 localstack/emulator.py where|prepare|python|gaps

server.py says what the commands do; "gaps" prints the gaps that it closes.
"""

import asyncio
import os
import sys

import server

HERE = os.path.dirname(os.path.abspath(__file__))


def python():
    if sys.version_info < (3, 10):
        server.missing(f"the emulator needs Python 3.10 or newer; this is {sys.version.split()[0]}")
    return sys.executable


def environ(data, port):
    return {
        "BIND_HOST": server.HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_EDITION": "perdure",
        "MINISTACK_REGION": "us-east-1",
        "S3_DATA_DIR": os.path.join(data, "s3"),
        "STATE_DIR": os.path.join(data, "state"),
        # No containers, and no listeners that nobody asks.
        "DOCKER_HOST": "unix://" + os.path.join(data, "docker"),
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }


def more(parser):
    parser.add_argument("--leave", action="append", default=[], help="a gap to leave open, or all")


def serve(args):
    import gaps as known

    known.close(leave=args.leave)

    from hypercorn.asyncio import serve as hypercorn
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = ["fd://" + os.environ.pop("PERDURE_LISTENER")]
    config.keep_alive_timeout = 75
    # By default a connection ends after a thousand requests, unannounced: the answer to the next one is lost.
    config.keep_alive_max_requests = sys.maxsize
    config.loglevel = "WARNING"
    asyncio.run(hypercorn(app, config, shutdown_trigger=never))


async def never():
    """Nothing is worth shutting down for in order: nothing is kept."""
    await asyncio.Event().wait()


def gaps(args):
    import shutil

    import gaps as known

    known.load()
    for gap in known.KNOWN:
        print(f"{gap.name}\n    {gap.aws}\n    {gap.source}")
    shutil.rmtree(args.data)


if __name__ == "__main__":
    server.run(
        server.Server(
            doc=__doc__,
            script=__file__,
            pins=os.path.join(HERE, "requirements.txt"),
            health="/_ministack/health",
            python=python,
            environ=environ,
            serve=serve,
            more=more,
            others={"gaps": gaps},
        )
    )
