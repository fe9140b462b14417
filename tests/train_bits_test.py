"""One order whatever the layout: the digest of all state after training is the same for any number of workers and
threads, any instruction set, with or without a kill, and when a run is resumed with other workers."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import muster_program as muster


class TrainBits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="muster-bits-")
        cls.path = pathlib.Path(cls.folder.name)
        cls.config = muster.write_config(cls.path)
        cls.reference = cls.train("reference", "--workers", 1)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def train(cls, name, *arguments, **options):
        return muster.run_json("train", cls.config, "--run-dir", cls.path / name, *arguments, **options)

    def losses(self, name):
        last = {}
        for line in (self.path / name / "steps.jsonl").read_text().splitlines():
            record = json.loads(line)
            last[record["step"]] = record["loss_bits"]
        return last

    def same(self, name, result, other="reference", other_result=None):
        other_result = other_result or self.reference
        self.assertEqual(result["digest"], other_result["digest"])
        self.assertEqual(self.losses(name), self.losses(other))
        self.assertEqual(result["validation_bits_per_byte"], other_result["validation_bits_per_byte"])

    def test_any_number_of_workers(self):
        for workers in (2, 3, 4):
            with self.subTest(workers=workers):
                name = f"workers-{workers}"
                self.same(name, self.train(name, "--workers", workers))

    def test_two_threads_a_worker(self):
        self.same("threads", self.train("threads", "--workers", 2, "--set", "train.threads=2"))

    def test_any_instruction_set(self):
        for isa in ("scalar", "avx2"):
            with self.subTest(isa=isa):
                self.same(isa, self.train(isa, "--workers", 1, env={"MUSTER_ISA": isa}))

    def test_a_killed_worker(self):
        result = self.train("killed", "--workers", 2, "--inject", "kill:rank=1,step=7")
        self.same("killed", result)
        self.assertEqual(result["restarts"], 1)
        ledger = result["ledger"]
        self.assertEqual(sum(v for k, v in ledger.items() if k != "total"), ledger["total"])
        self.assertGreater(ledger["rework"], 0)

    def test_two_kills_of_different_ranks(self):
        result = self.train(
            "killed-twice", "--workers", 2, "--inject", "kill:rank=0,step=6", "--inject", "kill:rank=1,step=10"
        )
        self.same("killed-twice", result)
        self.assertEqual(result["restarts"], 2)

    def test_resume_with_other_workers(self):
        self.train("resumed", "--workers", 2, "--steps", 12, "--set", "train.stop_after=5")
        self.same("resumed", self.train("resumed", "--workers", 4, "--resume"))

    def test_the_operator_stops_and_resumes(self):
        run, endless = self.path / "stopped", ("--steps", 1_000_000)  # only the signal can end it
        process = subprocess.Popen(
            [muster.BINARY, "train", self.config, "--run-dir", run, "--workers", "2", "--json", *map(str, endless)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self.assertTrue(muster.wait_until(lambda: self.logged(run) or process.poll() is not None))
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        stopped = json.loads(out)["steps"]
        self.assertEqual(max(self.losses("stopped")), stopped)
        to_the_end = (*endless, "--set", f"train.stop_after={stopped + 5}")
        undisturbed = self.train("not-stopped", "--workers", 1, *to_the_end)
        resumed = self.train("stopped", "--workers", 1, "--resume", *to_the_end)
        self.assertEqual((undisturbed["steps"], resumed["steps"]), (stopped + 5, stopped + 5))
        self.same("stopped", resumed, "not-stopped", undisturbed)

    def logged(self, run):
        """Whether a step is in the run's log."""
        log = run / "steps.jsonl"
        return log.exists() and "\n" in log.read_text()

    def test_the_checkpoint_holds_what_the_digest_says(self):
        newest = self.reference["checkpoint"]
        listed = muster.run_json("ckpt", "ls", self.path / "reference")["checkpoints"]
        self.assertEqual([(c["folder"], c["step"], c["valid"]) for c in listed][0], (newest, 12, True))
        self.assertTrue(muster.run_json("ckpt", "verify", newest)["valid"])
        for found in listed:
            same = muster.run_json("ckpt", "digest", found["folder"])["digest"] == self.reference["digest"]
            self.assertEqual(same, found["folder"] == newest)

    def test_fast_mode_goes_on_with_the_recorded_kernels(self):
        run = self.path / "fast"
        whole = self.train("fast", "--workers", 2, "--set", "train.mode=fast")
        shown = muster.run_json("ckpt", "show", whole["checkpoint"])["numerics"]
        self.assertEqual(shown["mode"], "fast")
        report = (run / "report.md").read_text()
        for name, choice in shown["choices"].items():
            if name.startswith("gemm."):
                self.assertIn(f"| {name} | {choice} |", report)
        if not shown["choices"]["vendor"].startswith("none"):
            self.assertTrue(any(name.startswith("gemm.") for name in shown["choices"]))
        # Back to the first checkpoint, with nothing but what it records.
        losses = self.losses("fast")
        for later in sorted((run / "checkpoints").glob("step-*"))[1:]:
            shutil.rmtree(later)
        for choices in run.glob("gemm-choices-*"):
            choices.unlink()
        resumed = self.train("fast", "--workers", 2, "--resume", "--set", "train.mode=fast")
        self.assertEqual(resumed["digest"], whole["digest"])
        self.assertEqual(self.losses("fast"), losses)

    def test_another_seed_gives_another_run(self):
        self.assertNotEqual(self.train("seed", "--seed", 2)["digest"], self.reference["digest"])


if __name__ == "__main__":
    unittest.main()
