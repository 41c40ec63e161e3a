#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--trace FILE` and `--profile` of the command `tenon`: the file is JSON at any time and has the structure of Chrome's
trace format; what cannot be written is said."""
import collections
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ.get("TENON_BUILD_DIR", "build/release")
TENON = os.path.join(BUILD, "bin/tenon")
KEYS = {"M": {"ph", "name", "pid", "tid", "args"}, "B": {"ph", "name", "cat", "pid", "tid", "ts"},
        "E": {"ph", "pid", "tid", "ts"}, "C": {"ph", "name", "pid", "ts", "args"},
        "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur"}}


def run(*arguments):
    environment = dict(os.environ, TENON_NUM_THREADS="1")
    return subprocess.run([TENON, *arguments], capture_output=True, text=True, env=environment)


def events_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "trace.json")

    def tearDown(self):
        self.folder.cleanup()

    def check_structure(self, events, whole):
        """Keys and their types; begins and ends nest on each thread, in the order of time."""
        depth, last, named = collections.Counter(), {}, set()
        for event in events:
            self.assertLessEqual(KEYS[event["ph"]], set(event), event)
            if event["ph"] == "M":
                named.add((event["name"], event["pid"], event["tid"]))
            if event["ph"] not in "BE":
                continue
            thread = (event["pid"], event["tid"])
            self.assertIn(("thread_name", *thread), named)
            self.assertGreaterEqual(event["ts"], last.get(thread, 0))
            last[thread] = event["ts"]
            depth[thread] += 1 if event["ph"] == "B" else -1
            self.assertGreaterEqual(depth[thread], 0)
        if whole:
            self.assertEqual(set(depth.values()), {0})
        self.assertTrue(any(name == "process_name" for name, _, _ in named))

    def test_a_loop_is_whole_and_has_shapes(self):
        result = run("bench", "--loop", "add_1_grad", "500", "--trace", self.path)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        events = events_of(self.path)
        self.check_structure(events, whole=True)
        adds = [e for e in events if e["ph"] == "B" and e["name"] == "add.Tensor"]
        self.assertGreaterEqual(len(adds), 500)
        self.assertEqual(adds[0]["args"]["inputs"][0], "float32[1] cpu")
        self.assertEqual(adds[0]["cat"], "operator")

    def test_memory_is_a_counter(self):
        result = run("bench", "--loop", "add_4M", "20", "--trace", self.path)
        self.assertEqual(result.returncode, 0, result.stderr)
        counters = [e for e in events_of(self.path) if e["ph"] == "C"]
        self.assertTrue(counters)
        self.assertEqual(counters[0]["name"], "memory cpu")
        self.assertGreater(max(e["args"]["bytes"] for e in counters), 1 << 16)

    def test_a_killed_process_leaves_whole_json(self):
        loop = [TENON, "bench", "--loop", "add_1_nograd", "100000000", "--trace", self.path]
        for number in (signal.SIGTERM, *[signal.SIGKILL] * 9):
            process = subprocess.Popen(loop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (os.path.exists(self.path) and os.path.getsize(self.path) > 300000):
                time.sleep(0.02)
            process.send_signal(number)
            process.wait()
            events = events_of(self.path)
            self.assertGreater(len(events), 1000)
            self.check_structure(events, whole=False)
            os.unlink(self.path)

    def test_a_trace_ends_where_its_brackets_do(self):
        for calls in (1, 40, 400):
            self.assertEqual(run("bench", "--loop", "add_1_nograd", str(calls), "--trace", self.path).returncode, 0)
            with open(self.path, encoding="utf-8") as file:
                self.assertTrue(file.read().endswith("}\n]}\n"))

    def test_a_full_disk_is_said(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        result = run("bench", "--loop", "add_1_nograd", "5000", "--trace", "/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/dev/full", result.stderr)
        self.assertIn("No space left", result.stderr)
        result = run("bench", "--loop", "add_1_nograd", "5", "--trace", os.path.join(self.folder.name, "no/trace.json"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot be written", result.stderr)

    def test_a_pipe_gets_one_whole_object(self):
        result = run("bench", "--loop", "add_1_nograd", "5000", "--trace", "/dev/stdout")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_structure(json.loads(result.stdout)["traceEvents"], whole=True)

    def test_the_table_is_sorted_by_own_time(self):
        result = run("bench", "--loop", "add_1_grad", "2000", "--profile")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], r"^name +calls +total ms +self ms +wall +mean us +max us +bytes$")
        rows = [line.split() for line in lines[1:-1]]
        self.assertIn("add.Tensor", [row[0] for row in rows])
        own = [float(row[3]) for row in rows]
        self.assertEqual(own, sorted(own, reverse=True))
        for row in rows:
            self.assertGreaterEqual(float(row[2]) + 0.002, float(row[3]))
        self.assertRegex(lines[-1], r"^all +\d+ .*% of [\d.]+ ms")


if __name__ == "__main__":
    unittest.main()
