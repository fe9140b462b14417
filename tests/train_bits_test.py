"""One order whatever the layout: the digest of all state after training is the same for any number of workers and
threads, any instruction set, with or without a kill, and when a run is resumed with other workers."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
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

    def same(self, name, result):
        self.assertEqual(result["digest"], self.reference["digest"])
        self.assertEqual(self.losses(name), self.losses("reference"))
        self.assertEqual(result["validation_bits_per_byte"], self.reference["validation_bits_per_byte"])

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
        run = self.path / "stopped"
        process = subprocess.Popen(
            [muster.BINARY, "train", self.config, "--run-dir", run, "--workers", "2", "--set", "train.steps=12"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not (run / "steps.jsonl").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        self.same("stopped", self.train("stopped", "--workers", 1, "--resume"))

    def test_the_checkpoint_holds_what_the_digest_says(self):
        for name in ("reference",):
            listed = muster.run_json("ckpt", "ls", self.path / name)
            newest = self.reference["checkpoint"]
            self.assertTrue(listed)
            self.assertTrue(muster.run_json("ckpt", "verify", newest)["valid"])
            self.assertEqual(muster.run_json("ckpt", "digest", newest)["digest"], self.reference["digest"])

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
