"""`muster run` and `muster torchrun` as scripts see them: exit codes, JSON, signals, log files, and that nothing
is left behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import muster_program as muster
from muster_program import wait_until


def job(verb, *arguments, **options):
    return subprocess.Popen(
        [muster.BINARY, verb, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def json_of(*arguments):
    return json.loads(muster.run(*arguments).stdout)


def marked(mark):
    """Processes that carry the mark in their environment."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = pathlib.Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if f"MARK={mark}".encode() in environment.split(b"\0"):
            found.append(int(entry))
    return found


class Run(unittest.TestCase):
    def test_exit_codes(self):
        cases = [
            (("-n", "2", "--", "true"), 0),
            (("-n", "2", "--", "sh", "-c", "exit 7"), 7),
            (("-n", "2", "--", "sh", "-c", "kill -SEGV $$"), 128 + signal.SIGSEGV),
            (("-n", "1", "--", "no-such-program"), 127),
            (("-n", "1", "--", "/etc/passwd"), 126),
            (("-n", "0", "--", "true"), 2),
            (("-n", "-3", "--", "true"), 2),
            (("-n", "2"), 2),
            (("-n", "2", "--max-restarts", "2", "--", "true"), 2),
            (("-n", "2", "--restart", "sometimes", "--", "true"), 2),
            (("-n", "two", "--", "true"), 2),
        ]
        for arguments, code in cases:
            with self.subTest(arguments=arguments):
                done = muster.run("run", *arguments, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(bool(done.stderr), code != 0, done.stderr)

    def test_json_is_the_only_thing_on_standard_output(self):
        done = muster.run(
            "run",
            "-n",
            3,
            "--json",
            "--",
            "sh",
            "-c",
            "echo out; [ $RANK != 1 ] || exit 5; sleep 100",
            check=False,
        )
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 5)
        self.assertEqual(report["exit_code"], 5)
        self.assertEqual(report["restarts"], 0)
        self.assertEqual(report["first_cause"]["rank"], 1)
        self.assertEqual([r["rank"] for r in report["ranks"]], [0, 1, 2])
        self.assertIn("[1] out", done.stderr)

    def test_labels_and_log_files(self):
        with tempfile.TemporaryDirectory() as folder:
            done = muster.run("run", "-n", 2, "--log-dir", folder, "--", "sh", "-c", "echo I am $RANK")
            self.assertEqual(sorted(done.stdout.splitlines()), ["[0] I am 0", "[1] I am 1"])
            log = pathlib.Path(folder, "attempt_0", "1", "stdout.log")
            self.assertEqual(log.read_text(), "I am 1\n")
            quiet = muster.run("run", "-n", 2, "-q", "--log-dir", folder, "--", "echo", "x")
            self.assertEqual(quiet.stdout, "")

    def test_restart_scopes(self):
        with tempfile.TemporaryDirectory() as folder:
            fails_once = f"[ -e {folder}/$RANK ] || {{ touch {folder}/$RANK; [ $RANK = 0 ] || exit 1; }}; sleep 0.1"
            report = json_of(
                "run",
                "--json",
                "-n",
                2,
                "--restart",
                "rank",
                "--",
                "sh",
                "-c",
                fails_once,
            )
            self.assertEqual([r["restarts"] for r in report["ranks"]], [0, 1])
        with tempfile.TemporaryDirectory() as folder:
            fails_once = f"[ -e {folder}/$RANK ] || {{ touch {folder}/$RANK; [ $RANK = 0 ] || exit 1; }}; sleep 0.1"
            report = json_of(
                "run",
                "--json",
                "-n",
                2,
                "--restart",
                "group",
                "--",
                "sh",
                "-c",
                fails_once,
            )
            self.assertEqual([r["restarts"] for r in report["ranks"]], [1, 1])

    def test_standard_input_goes_to_rank_0(self):
        done = subprocess.run(
            [muster.BINARY, "run", "-n", "2", "--", "sh", "-c", "wc -c"],
            input="x" * 1_000_000,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 1000000", "[1] 0"])

    def test_nothing_is_left_whatever_dies(self):
        family = "sleep 1000 & setsid sh -c '(sleep 1000 &); sleep 1000' & trap '' TERM; wait; sleep 1000"
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            for disabled in ("", "cgroup"):
                with self.subTest(signal=number.name, without=disabled):
                    mark = uuid.uuid4().hex
                    environment = {
                        **os.environ,
                        "MARK": mark,
                        "MUSTER_DISABLE": disabled,
                    }
                    running = job("run", "-n", "2", "--", "sh", "-c", family, env=environment)
                    # The launcher, its keeper, and for each rank two shells and three sleeps.
                    self.assertTrue(wait_until(lambda m=mark: len(marked(m)) >= 2 + 2 * 5))
                    running.send_signal(number)
                    running.communicate(timeout=60)
                    self.assertEqual(
                        running.returncode,
                        -9 if number == signal.SIGKILL else 128 + number,
                    )
                    self.assertTrue(wait_until(lambda m=mark: not marked(m)), marked(mark))

    def test_a_second_signal_kills_at_once(self):
        slow = job(
            "run",
            "-n",
            "1",
            "--stop-grace-ms",
            "600000",
            "--",
            "sh",
            "-c",
            "trap '' INT; echo up; sleep 1000",
        )
        self.assertEqual(slow.stdout.readline(), "[0] up\n")
        slow.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(slow.poll())
        slow.send_signal(signal.SIGINT)
        slow.communicate(timeout=60)
        self.assertEqual(slow.returncode, 128 + signal.SIGINT)


class Torchrun(unittest.TestCase):
    def test_environment_arguments_and_streams(self):
        script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_USE_AGENT_STORE $1"
        with tempfile.TemporaryDirectory() as folder:
            flags = [
                "--nproc-per-node=2",
                "--max_restarts",
                "3",
                "--log-dir",
                folder,
                "--tee",
                "3",
                "--no-python",
            ]
            done = muster.run("torchrun", *flags, "sh", "-c", script, "sh", "got-${local_rank}")
            self.assertEqual(
                sorted(done.stdout.splitlines()),
                ["[default0]:0 0 2 3 True got-0", "[default1]:1 1 2 3 True got-1"],
            )
            logs = list(pathlib.Path(folder).glob("*/attempt_0/1/stdout.log"))
            self.assertEqual([log.read_text() for log in logs], ["1 1 2 3 True got-1\n"])

    def test_the_exit_code_is_that_of_the_first_cause(self):
        for script, code in (("exit 7", 7), ("kill -9 $$", 137)):
            done = muster.run("torchrun", "--no-python", "sh", "-c", script, check=False)
            self.assertEqual(done.returncode, code)

    def test_a_port_in_use_is_named(self):
        import socket

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = muster.run("torchrun", "--master-port", port, "--no-python", "true", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(port), done.stderr)

    def test_wrong_flags(self):
        for flags in (
            ["--no-such-flag", "x"],
            ["--nnodes", "2", "x"],
            ["--nproc-per-node", "0", "--no-python", "true"],
        ):
            with self.subTest(flags=flags):
                self.assertEqual(muster.run("torchrun", *flags, check=False).returncode, 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
