"""What AWS writes to a function's log besides what the function prints, as text and as JSON.

https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-logformat.html; the records are those of
https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html. The levels of an application's own
lines are not looked at.
"""

import datetime
import json
from dataclasses import dataclass


@dataclass
class Report:
    """How an invocation went."""

    id: str
    version: str
    duration: float  # in milliseconds, as are all
    size: int  # of memory, in megabytes
    used: int
    init: float | None = None
    kind: str | None = None  # of error, if the process was to blame and not the function

    @property
    def status(self):
        return {None: "success", "Sandbox.Timedout": "timeout"}.get(self.kind, "error")


class Text:
    def init(self, duration, kind):
        status = "timeout" if kind == "Sandbox.Timedout" else f"error\tError Type: {kind}"
        return f"INIT_REPORT Init Duration: {duration:.2f} ms\tPhase: init\tStatus: {status}\t\n"

    def start(self, report):
        return f"START RequestId: {report.id} Version: {report.version}\n"

    def end(self, report, why):
        if report.status == "timeout":
            why = f"{now()} {report.id} {why.rpartition('Error: ')[2]}\n"
        elif report.status == "error":
            why = f"{why}\n{report.kind}\n"
        fields = [f"REPORT RequestId: {report.id}", f"Duration: {report.duration:.2f} ms", f"Billed Duration: {billed(report)} ms"]
        fields += [f"Memory Size: {report.size} MB", f"Max Memory Used: {report.used} MB"]
        if report.init is not None:
            fields.append(f"Init Duration: {report.init:.2f} ms")
        if report.status != "success":
            fields.append(f"Status: {report.status}")
        if report.status == "error":
            fields.append(f"Error Type: {report.kind}")
        reported = "\t".join(fields)
        return f"{why}END RequestId: {report.id}\n{reported}\t\n"


class Json:
    def __init__(self, level):
        self.warnings = level == "WARN"  # alone; "INFO" and "DEBUG" have the rest too

    def init(self, duration, kind):
        status = {"status": "timeout"} if kind == "Sandbox.Timedout" else {"status": "error", "errorType": kind}
        return record("initReport", {"initializationType": "on-demand", "phase": "init", **status, "metrics": {"durationMs": round(duration, 3)}})

    def start(self, report):
        return "" if self.warnings else record("start", {"requestId": report.id, "version": report.version})

    def end(self, report, why):
        if self.warnings and report.status == "success":
            return ""
        metrics = {"durationMs": round(report.duration, 3), "billedDurationMs": billed(report), "memorySizeMB": report.size, "maxMemoryUsedMB": report.used}
        if report.init is not None:
            metrics["initDurationMs"] = round(report.init, 3)
        status = {"status": report.status} if report.status != "error" else {"status": "error", "errorType": report.kind}
        return record("report", {"requestId": report.id, "metrics": metrics, **status})


def writer(settings):
    """Returns what writes the records of a function, by its LoggingConfig."""
    return Json(settings.get("SystemLogLevel")) if settings.get("LogFormat") == "JSON" else Text()


def record(kind, content):
    return json.dumps({"time": now(), "type": "platform." + kind, "record": content}, separators=(",", ":")) + "\n"


def billed(report):
    return int(report.duration) + 1


def now():
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
