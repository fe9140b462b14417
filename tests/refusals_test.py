"""What a verb refuses: wrong words end with 2 before anything is done, and nobody's files are overwritten."""

import pathlib
import tempfile
import unittest

import muster_program as muster


class Refusals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-refusals-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def refused(self, *words, code, said):
        done = muster.run(*words, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(said, done.stderr)

    def config(self, name="tiny.toml", steps=2):
        corpus = self.path / "corpus"
        if not corpus.exists():
            corpus.mkdir()
            muster.write_corpus(corpus)
        file = self.path / name
        file.write_text(muster.TINY_MODEL.format(corpus=corpus, steps=steps))
        return file

    def test_numbers_beyond_their_bounds(self):
        job = ("--", "true")
        for words, said in (
            (("run", "-n", "1", "--restart", "rank", "--max-restarts", 1 << 32, *job), "--max-restarts is a number"),
            (("run", "-n", "1", "--restart", "rank", "--max-restarts", -1, *job), "--max-restarts is a number"),
            (("run", "-n", "1", "--fail-grace-ms", 10**13, *job), "a grace time is from 0"),
            (("run", "-n", "1", "--stop-grace-ms", -1, *job), "a grace time is from 0"),
            (("torchrun", "--max-restarts", 1 << 32, "x.py"), "max-restarts"),
            (("generate", "--checkpoint", "x", "--prompt", "a", "--threads", 1 << 31), "not between 1 and 1024"),
            (("generate", "--checkpoint", "x", "--prompt", "a", "--threads", (1 << 32) + 1), "not between 1 and 1024"),
            (("score", "--checkpoint", "x", "--tokens", "1,2", "--threads", 0), "not between 1 and 1024"),
            (("score", "--checkpoint", "x", "--tokens", "1,2", "--threads", (1 << 32) + 1), "not between 1 and 1024"),
            (("score", "--checkpoint", "x", "--tokens", "1,2", "--stride", -1), "--stride -1 is negative"),
        ):
            with self.subTest(words=words):
                self.refused(*words, code=2, said=said)

    def test_what_train_is_asked_for_cannot_be_meant(self):
        config = self.config()
        run = self.path / "run"
        for words, said in (
            (("--inject", "burn:rank=0,step=1"), "not an injection"),
            (("--inject", "kill:rank=2,step=1"), "ranks 0 to 1 only"),
        ):
            with self.subTest(words=words):
                self.refused("train", config, "--run-dir", run, *words, code=2, said=said)
                self.assertFalse(run.exists())
        self.refused("train", config, "--resume", code=2, said="--run-dir or set run.dir")
        # The folder may come from the settings too; then it must hold a run.
        self.refused("train", config, "--resume", "--set", f"run.dir={run}", code=1, said="holds no run to resume")

    def test_a_model_becomes_a_folder_and_back_beside_files_of_others(self):
        config, run = self.config(), self.path / "run"
        trained = muster.run("train", config, "--run-dir", run, "--workers", 1, "--set", "run.max_restarts=0")
        self.assertIn("checkpoint writes: ", trained.stderr)
        report = (run / "report.md").read_text()
        self.assertRegex(report, r"checkpoint writes.*(io\\_uring|threads)")
        [checkpoint] = sorted((run / "checkpoints").glob("step-*"))[-1:]

        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            with self.subTest(name=name):
                folder = self.path / f"has-{name}"
                folder.mkdir()
                (folder / name).write_text("mine")
                self.refused("export-hf", checkpoint, "-o", folder, code=1, said=f"{name} is there already")
                self.assertEqual([p.name for p in folder.iterdir()], [name])
                self.assertEqual((folder / name).read_text(), "mine")

        muster.run("export-hf", checkpoint, "-o", self.path / "hf")
        (self.path / "model.new").mkdir()
        (self.path / "model.new/notes").write_text("mine")
        muster.run("import-hf", self.path / "hf", "-o", f"{self.path / 'model'}/")
        self.assertEqual((self.path / "model.new/notes").read_text(), "mine")
        self.assertEqual([p.name for p in self.path.glob(".model*")], [])
        self.refused("import-hf", self.path / "hf", "-o", self.path / "model", code=1, said="is there already")

        # The tokenizer that is there decides the rows of the embedding, not data.vocabulary.
        trained_size = muster.run_json("plan", config)["parameters"]["total"]
        small = ("--set", f"data.tokenizer={run / 'tokenizer.json'}", "--set", "data.vocabulary=4000")
        self.assertEqual(muster.run_json("plan", config, *small)["parameters"]["total"], trained_size)
        in_bytes = muster.run_json("plan", config, "--set", "data.tokenizer=bytes")["parameters"]["total"]
        self.assertEqual(trained_size - in_bytes, (320 - 261) * 32 * 2)

        # Marks of injections whose indices have gaps are removed too.
        for index in (1, 7):
            (run / f"injected-{index}").write_text("")
        muster.run("train", config, "--run-dir", run, "--resume", "--workers", 1, "--steps", 3)
        self.assertEqual(list(run.glob("injected-*")), [])


if __name__ == "__main__":
    unittest.main()
