"""Runs redis-py's own Lock for the Go tests: a line of JSON on stdin is a call, one on stdout its answer.

Each lock has a thread, in which all its calls run, one after the other: a Lock keeps its token in
thread-local storage unless told otherwise, and is used here as it comes. The end of stdin ends the
process, without a farewell to Redis.

A call is {"id", "lock", "do", ...}: "new" with "addr", "name", "timeout" and "sleep" makes the lock,
"token" and "claim" read and set what it believes to hold, "count" increments a key under the lock, and
everything else is a method of Lock with "args". Bytes are in base64. An answer is {"id", "value"} or
{"id", "error", "message"}.
"""

import base64
import json
import os
import queue
import sys
import threading
import time

import redis
from redis.lock import Lock

writing = threading.Lock()


def answer(**what):
    with writing:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def connect(addr):
    host, port = addr.rsplit(":", 1)
    return redis.Redis(host=host, port=int(port))


def count(lock, key, rounds):
    for _ in range(rounds):
        with lock:
            seen = int(lock.redis.get(key) or 0)
            time.sleep(0.001)  # for others to come in between
            lock.redis.set(key, seen + 1)


def perform(lock, call):
    do, args = call["do"], call.get("args") or {}
    if "token" in call:
        args["token"] = base64.b64decode(call["token"])
    if do == "token":
        value = lock.local.token
    elif do == "claim":
        value = lock.local.token = args["token"]
    elif do == "count":
        value = count(lock, **args)
    else:
        value = getattr(lock, do)(**args)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def serve(calls):
    lock = None
    while True:
        call = calls.get()
        try:
            if call["do"] == "new":
                lock = Lock(connect(call["addr"]), call["name"], timeout=call.get("timeout"), sleep=call["sleep"])
                value = None
            else:
                value = perform(lock, call)
            answer(id=call["id"], value=value)
        except Exception as error:
            answer(id=call["id"], error=type(error).__name__, message=str(error))


def main():
    threads = {}
    for line in sys.stdin:
        call = json.loads(line)
        calls = threads.get(call["lock"])
        if calls is None:
            calls = threads[call["lock"]] = queue.Queue()
            threading.Thread(target=serve, args=(calls,), daemon=True).start()
        calls.put(call)
    os._exit(0)


main()
