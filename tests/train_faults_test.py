"""`muster train` when things go wrong: what is refused and how it is said, what is survived and that nothing is lost.
Wherever a run goes on after a fault it must end in the bits of an undisturbed one."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest
import uuid

import muster_program as muster
from muster_program import wait_until

STEPS = 60
ENDLESS = ("--steps", 1_000_000)  # for a run that only a signal ends
KIB = 1024


def held(step):
    """Arguments of a run that stands still in `step` until somebody kills a rank: the time-out is far away."""
    return "--inject", f"hang:rank=1,step={step}", "--set", "train.hang_timeout=30min"


def processes(mark):
    """pid -> program name of the processes that carry the mark in their environment, the oldest first."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"MARK={mark}".encode() not in pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                continue
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if stat[0] != "Z":
                program = os.path.basename(os.readlink(f"/proc/{entry}/exe"))
                found[int(stat[19]), int(entry)] = program  # start time, pid
        except OSError:
            continue
    return {pid: found[started, pid] for started, pid in sorted(found)}


def contents(folder):
    """Every file below a folder and its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


class TrainFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="muster-faults-")
        cls.path = pathlib.Path(cls.folder.name)
        cls.config = muster.write_config(cls.path, steps=STEPS)
        small = cls.config.read_text().replace("[checkpoint]", '[checkpoint]\nring_buffer_size = "1MiB"')
        cls.config.write_text(small)
        cls.reference = json.loads(cls.train("reference").stdout)
        # Silent for seconds, so it goes on beside the other tests.
        cls.hanging, _ = cls.start("hang", "--inject", "hang:rank=1,step=50", "--set", "train.hang_timeout=4s")
        cls.short = cls.path / "short"  # 12 steps, checkpoints at 4, 8 and 12
        cls.train("short", "--steps", 12)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def train(cls, name, *arguments, code=0):
        if "--workers" not in arguments:
            arguments = ("--workers", 2, *arguments)
        run = muster.run("train", cls.config, "--run-dir", cls.path / name, "--json", *arguments, check=False)
        assert run.returncode == code, f"exit code {run.returncode}, not {code}\n{run.stderr[-4000:]}"
        return run

    @classmethod
    def start(cls, name, *arguments):
        """A run in the background and the mark of its processes."""
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            [muster.BINARY, "train", cls.config, "--run-dir", cls.path / name, "--workers", "2", "--json"]
            + [str(argument) for argument in arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MARK": mark},
        )
        cls.addClassCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        return process, mark

    def steps(self, name):
        try:
            lines = (self.path / name / "steps.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def reach(self, process, name, step):
        def logged():
            return any(r["step"] >= step for r in self.steps(name))

        self.assertTrue(wait_until(lambda: logged() or process.poll() is not None))
        self.assertTrue(logged(), "the run ended before")

    def trainers(self, mark):
        """The processes of a run with two ranks: the template, which is the oldest, and the ranks."""
        found = [pid for pid, program in processes(mark).items() if program == "muster-trainer"]
        self.assertEqual(len(found), 3)
        return found[0], found[1:]

    def copy_of_short(self, name):
        shutil.copytree(self.short, self.path / name)
        folders = sorted((self.path / name / "checkpoints").glob("step-*"))
        self.assertEqual(len(folders), 3)
        return folders

    def whole(self, name, result, like="reference"):
        """The run `name` ended as the undisturbed run `like` did, and its time is accounted for."""
        reference = json.loads((self.path / like / "result.json").read_text())
        self.assertEqual(result["digest"], reference["digest"])
        self.assertEqual(result["steps"], reference["steps"])
        last = {record["step"]: record["loss_bits"] for record in self.steps(name)}
        self.assertEqual(last, {record["step"]: record["loss_bits"] for record in self.steps(like)})
        self.exact(result)

    def exact(self, result):
        ledger = result["ledger"]
        self.assertEqual(sum(v for k, v in ledger.items() if k != "total"), ledger["total"])

    # --- refused before anything is written

    def test_numbers_of_workers(self):
        for workers, said in ((0, "run.workers = 0 is outside its range"), (5, "more than the 4 micro-batches")):
            with self.subTest(workers=workers):
                self.assertIn(said, self.train("refused", "--workers", workers, code=1).stderr)
                self.assertFalse((self.path / "refused").exists())

    def test_injections(self):
        for text, said in (("kill:rank=2,step=1", "ranks 0 to 1 only"), ("burn:rank=0,step=1", "not an injection")):
            with self.subTest(text=text):
                self.assertIn(said, self.train("refused", "--inject", text, code=2).stderr)
                self.assertFalse((self.path / "refused").exists())

    def test_corpora_without_a_document(self):
        empty, binary = self.path / "empty", self.path / "binary"
        empty.mkdir()
        binary.mkdir()
        (binary / "a.py").write_bytes(b"\xff\xfe\x00")
        for folder, said in (
            (empty, "0 files read"),
            (binary, "1 not UTF-8"),
            (self.path / "missing", "No such file or directory"),
        ):
            with self.subTest(folder=folder):
                run = self.train("no-corpus", "--set", f'data.paths=["{folder}"]', code=1)
                self.assertIn(said, run.stderr)
                self.assertIn(str(folder), run.stderr)
                self.assertFalse((self.path / "no-corpus").exists())

    def test_directories_of_runs(self):
        before = contents(self.short)
        self.assertIn("add --resume", self.train("short", code=1).stderr)
        self.assertEqual(contents(self.short), before)
        self.assertIn("holds no run to resume", self.train("nothing", "--resume", code=1).stderr)
        self.assertFalse((self.path / "nothing").exists())

    def test_settings_that_no_worker_could_use(self):
        for setting, code, said in (
            ("train.memory_budget=1KiB", 93, "train.memory_budget"),
            ("checkpoint.ring_buffer_size=1500KiB", 93, "not a number of whole MiB"),
            ('data.tokenizer="nowhere.json"', 1, "nowhere.json"),
        ):
            with self.subTest(setting=setting):
                self.assertIn(said, self.train("unusable", "--set", setting, code=code).stderr)
                self.assertFalse((self.path / "unusable").exists())

    # --- told and survived

    def test_documents_that_are_skipped_or_longer_than_the_context(self):
        corpus = self.path / "mixed-corpus"
        shutil.copytree(self.path / "corpus", corpus)
        (corpus / "bad.py").write_bytes(b"\xff\xfe\x00")
        (corpus / "empty.py").touch()
        (corpus / "link.py").symlink_to("bad.py")
        (corpus / "long.py").write_text("".join(f"a{i} = {i}\n" for i in range(2000)))
        run = self.train("mixed", "--steps", 4, "--set", f'data.paths=["{corpus}"]')
        self.assertIn("skipped 1 symbolic links, 1 not UTF-8, 1 empty", run.stderr)
        self.assertIn("skipped 1 symbolic links, 1 not UTF-8, 1 empty", (self.path / "mixed/report.md").read_text())

    def test_a_run_directory_inside_the_corpus(self):
        corpus = self.path / "whole-project"
        shutil.copytree(self.path / "corpus", corpus)
        place = corpus / "runs/one"
        setting = f'data.paths=["{corpus}"]'
        self.train(place, "--set", setting, "--set", "train.stop_after=6")
        run = self.train(place, "--set", setting, "--resume")  # grown since, and the same corpus
        self.assertIn("skipped 1 run directories", run.stderr)
        self.assertEqual(json.loads(run.stdout)["digest"], self.reference["digest"])
        for inside in (corpus, self.path):
            run = self.train(inside, "--set", setting, code=1)
            self.assertIn(f"the corpus {corpus} lies inside the run directory {inside}", run.stderr)

    def test_a_damaged_checkpoint_and_a_cut_one(self):
        _, cut, damaged = self.copy_of_short("damaged")
        with open(damaged / "shard-00000-of-00002.safetensors", "r+b") as shard:
            shard.seek(20 * KIB)
            byte = shard.read(1)[0]
            shard.seek(20 * KIB)
            shard.write(bytes([byte ^ 1]))
        os.truncate(cut / "shard-00001-of-00002.safetensors", 1000)
        run = self.train("damaged", "--resume", "--steps", 12)
        self.assertEqual(json.loads(run.stdout)["digest"], self.digest_of_short())
        for folder in (cut, damaged):
            self.assertRegex(run.stderr, f"warning: rank 0: a checkpoint is damaged.*{folder.name}")
        log = (self.path / "damaged/logs/attempt_0/0/stderr.log").read_text()
        self.assertIn("resumed step=4", log)

    def digest_of_short(self):
        return json.loads((self.short / "result.json").read_text())["digest"]

    def test_no_checkpoint_is_left(self):
        for folder in self.copy_of_short("none-left"):
            shutil.rmtree(folder)
        run = self.train("none-left", "--resume", "--steps", 12)
        self.assertIn("no valid checkpoint, so the run starts from its first step", run.stderr)
        self.assertEqual(json.loads(run.stdout)["digest"], self.digest_of_short())

    def test_resume_with_what_does_not_belong_together(self):
        for name, said, code, arguments in (
            ("seed", "train.seed = 1 and this run has 2", 93, ("--seed", "2")),
            ("fewer", "beyond train.steps = 8", 93, ("--steps", "8")),
            ("batch", "micro_batches_per_step = 4 and", 93, ("--set", "batch.micro_batches_per_step=8")),
            ("wider", "belongs to another model", 93, ("--set", "model.hidden=64")),
            ("other-corpus", "the corpus found is", 93, ("--set", "data.holdout=0.2")),
            ("words", "the tokenizer of", 1, ("--set", "data.vocabulary=300")),
        ):
            with self.subTest(name=name):
                self.copy_of_short(name)
                before = contents(self.path / name)
                run = self.train(name, "--resume", *arguments, code=code)
                self.assertIn(said, run.stderr)
                self.assertEqual(contents(self.path / name), before)

    def test_another_tokenizer(self):
        self.copy_of_short("tokenizer")
        muster.run("tokenizer", "train", "--vocab-size", 300, "-o", self.path / "t.json", self.path / "corpus")
        shutil.copy(self.path / "t.json", self.path / "tokenizer/tokenizer.json")
        before = contents(self.path / "tokenizer")
        run = self.train("tokenizer", "--resume", "--steps", 16, code=93)
        self.assertIn("belongs to the tokenizer", run.stderr)
        self.assertEqual(contents(self.path / "tokenizer"), before)

    def test_steps_that_are_not_finite(self):
        run = self.train("nan", "--inject", "nan:rank=0,step=7", code=93)
        self.assertIn("3 steps in a row were not finite", run.stderr)
        self.assertRegex(run.stderr, r"step 7: loss_not_finite, batches \d+/\d+/\d+ \(micro-batch 0\)")
        result = json.loads(run.stdout)
        self.assertEqual((result["steps"], result["skipped_steps"]), (9, 3))
        self.assertIn("step-00000004", result["checkpoint"])  # nothing was saved of the bad state
        self.whole("nan", json.loads(self.train("nan", "--resume").stdout))

    def test_worker_that_hangs(self):
        out, err = self.hanging.communicate(timeout=120)
        self.assertEqual(self.hanging.returncode, 0, err)
        self.assertIn("hangs: no progress for", err)
        result = json.loads(out)
        self.assertEqual(result["restarts"], 1)
        self.assertGreater(result["ledger"]["hang"], 4 * 10**9)
        self.whole("hang", result)

    def test_worker_that_is_stopped(self):
        process, mark = self.start("sigstop", *ENDLESS, "--set", "train.hang_timeout=2s")
        self.reach(process, "sigstop", 10)
        os.kill(self.trainers(mark)[1][1], signal.SIGSTOP)

        def restarted():
            return any(r["attempt"] == 1 for r in self.steps("sigstop"))

        self.assertTrue(wait_until(lambda: restarted() or process.poll() is not None))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertRegex(err, r"rank 1\b.*\bhangs: no progress for .*the process is stopped")
        result = json.loads(out)
        self.assertEqual(result["restarts"], 1)
        self.exact(result)

    def test_a_warm_up_that_hangs(self):
        trainer = self.path / "hanging-trainer"
        trainer.write_text("#!/bin/sh\nexec sleep 1000\n")
        trainer.chmod(0o755)
        environment = {"MUSTER_TRAINER": str(trainer)}
        arguments = ("--run-dir", self.path / "cold", "--set", "train.warm_up_timeout=1s")
        run = muster.run("train", self.config, *arguments, env=environment, check=False)
        self.assertEqual(run.returncode, 124, run.stderr)
        self.assertIn("the template process was not warm after 1.00 s", run.stderr)
        self.assertIn("raise train.warm_up_timeout", run.stderr)

    # --- stopped and gone on with

    def test_a_second_signal_kills_at_once(self):
        process, mark = self.start("twice", *held(20))
        self.reach(process, "twice", 19)
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # it waits for a checkpoint of all ranks
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        self.assertEqual(processes(mark), {})
        self.whole("twice", json.loads(self.train("twice", "--resume").stdout))

    def test_signals_save_and_stop(self):
        stopped = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            name = number.name
            process, _ = self.start(name, *ENDLESS)
            self.reach(process, name, 10)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn(f"stopped by {name}", err)
            self.assertIn(f"go on with --resume --run-dir {self.path / name}", err)
            result = json.loads(out)
            stopped[name] = result["steps"]
            self.assertEqual(pathlib.Path(result["checkpoint"]).name[:13], f"step-{result['steps']:08}")
            self.assertEqual(self.steps(name)[-1]["step"], result["steps"])
            self.exact(result)
        to_the_end = (*ENDLESS, "--set", f"train.stop_after={max(stopped.values()) + 3}")
        self.train("not-stopped", *to_the_end)
        for name, steps in stopped.items():
            with self.subTest(signal=name):
                self.whole(name, json.loads(self.train(name, "--resume", *to_the_end).stdout), "not-stopped")
                again = [r["step"] for r in self.steps(name)[steps:]]
                self.assertEqual(again[0], steps + 1)  # nothing is computed twice

    def test_several_jobs_in_one_directory(self):
        name = "several"
        for job, stop in enumerate((8, 20, 33)):
            resume = ("--resume",) if job else ()
            run = self.train(
                name, *resume, "--set", f"train.stop_after={stop}", "--inject", f"kill:rank=1,step={stop - 1}"
            )
            result = json.loads(run.stdout)
            # Every job's injection acts, whatever the jobs before it did.
            self.assertEqual((result["steps"], result["restarts"]), (stop, 1))
            self.exact(result)
        result = json.loads(self.train(name, "--resume").stdout)
        self.assertEqual(result["restarts"], 0)
        self.assertEqual(result["ledger"]["rework"], 0)
        self.whole(name, result)
        self.assertEqual(muster.run_json("goodput", self.path / name)["ledger"], result["ledger"])
        for number in (1, 2, 3):
            traces = sorted(p.name for p in (self.path / name / f"trace.before-{number}").iterdir())
            self.assertEqual(traces, ["attempt-0", "attempt-1"])
        self.assertEqual([p.name for p in (self.path / name / "trace").iterdir()], ["attempt-0"])

    def test_two_runs_in_one_directory(self):
        process, mark = self.start("shared", *held(20))
        self.reach(process, "shared", 19)
        for resume in ((), ("--resume",)):
            self.assertIn("in use by another run", self.train("shared", *resume, code=1).stderr)
        self.assertIsNone(process.poll())
        os.kill(self.trainers(mark)[1][0], signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        self.whole("shared", json.loads(out))

    # --- killed

    def test_the_program_itself_is_killed(self):
        # Its ranks would stand still for half an hour, so it is the kill that ends them.
        process, mark = self.start("killed", *held(20))
        self.reach(process, "killed", 19)
        self.trainers(mark)
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: not processes(mark), 20), processes(mark))
        # The step log's end may be torn by a kill; make sure that it is.
        with open(self.path / "killed/steps.jsonl", "a") as log:
            log.write('{"step":1')
        self.whole("killed", json.loads(self.train("killed", "--resume").stdout))

    def test_the_template_is_killed(self):
        process, mark = self.start("template", *held(40))
        self.reach(process, "template", 39)
        template, ranks = self.trainers(mark)
        os.kill(template, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: template not in processes(mark)))
        self.assertLessEqual(set(ranks), set(processes(mark)))  # they do not notice
        os.kill(ranks[1], signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        result = json.loads(out)
        self.assertEqual(result["restarts"], 1)
        self.whole("template", result)

    def test_restarts_without_progress_come_to_an_end(self):
        # The first kill passes step 0, the next three do not pass step 6; a fifth is not waited for.
        injections = ("--inject", "kill:rank=1,step=6") * 5
        run = self.train("loop", *injections, "--set", "run.max_restarts=20", code=128 + signal.SIGKILL)
        self.assertIn("restart loop without progress: 3 attempts in a row did not pass step 6", run.stderr)
        self.assertIn("rank 1", run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual(result["restarts"], 3)
        self.exact(result)
        self.whole("loop", json.loads(self.train("loop", "--resume").stdout))

    def test_restarts_with_progress_are_used_up(self):
        injections = [x for step in (1, 2, 3) for x in ("--inject", f"kill:rank=1,step={step}")]
        run = self.train("used-up", *injections, "--set", "run.max_restarts=2", code=128 + signal.SIGKILL)
        self.assertIn("2 of 2 restarts used", run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual(result["restarts"], 2)
        self.exact(result)
        self.whole("used-up", json.loads(self.train("used-up", "--resume").stdout))

    # --- no room

    def test_a_full_disk(self):
        place = self.path / "full"
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "none", place], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("a small file system needs the right to mount one")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place], check=True))
        run = self.train("full", code=93)
        self.assertIn("a checkpoint could not be saved; the run goes on", run.stderr)
        self.assertIn("the last state could not be saved", run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual(result["digest"], self.reference["digest"])  # all steps were done
        self.assertTrue(muster.run_json("ckpt", "verify", result["checkpoint"])["valid"])
        subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
        self.whole("full", json.loads(self.train("full", "--resume").stdout))


if __name__ == "__main__":
    unittest.main()
