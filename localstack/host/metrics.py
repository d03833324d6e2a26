"""The metrics of functions, Invocations and Errors, written by one thread.

LocalStack writes each in a thread of its own, by a request and a commit that waits for the disk: where functions are
called faster than that, threads pile up by the thousand. Here whatever has come in the meantime is one write.
"""

import datetime
import logging
import queue
import threading
from collections import Counter

_pending = queue.SimpleQueue()


def install():
    from localstack.services.lambda_.invocation import version_manager

    original = version_manager.start_thread

    def start_thread(method, *args, name=None, **more):
        if name and name.startswith("record-cloudwatch-metric"):
            return method()
        return original(method, *args, name=name, **more)

    version_manager.start_thread = start_thread
    version_manager.record_cw_metric_invocation = record("Invocations")
    version_manager.record_cw_metric_error = record("Invocations", "Errors")
    threading.Thread(target=write, name="lambda-metrics", daemon=True).start()


def record(*names):
    def put(function_name, account_id, region_name):
        _pending.put([(account_id, region_name, function_name, name) for name in names])

    return put


def write():
    while True:
        counts = Counter(_pending.get())
        while not _pending.empty():
            counts.update(_pending.get())
        places = {key[:2] for key in counts}
        for place in places:
            try:
                publish(*place, {key[2:]: count for key, count in counts.items() if key[:2] == place})
            except Exception as error:
                logging.getLogger(__name__).warning("metrics of functions were not written: %s", error)


def publish(account, region, counts):
    from localstack.aws.connect import connect_to
    from localstack.utils.bootstrap import is_api_enabled

    if not is_api_enabled("cloudwatch"):
        return
    now = datetime.datetime.now(datetime.UTC)
    data = []
    for (function, name), count in counts.items():
        dimensions = [{"Name": "FunctionName", "Value": function}]
        data.append({"MetricName": name, "Dimensions": dimensions, "Timestamp": now, "Values": [1.0], "Counts": [float(count)]})
    client = connect_to(aws_access_key_id=account, region_name=region).cloudwatch
    for at in range(0, len(data), 1000):  # as many as one request may have
        client.put_metric_data(Namespace="AWS/Lambda", MetricData=data[at : at + 1000])
