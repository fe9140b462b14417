"""The verbs as users and scripts call them, on one small run: with --json one object on standard output and all else on
standard error, the values recomputed here where they can be, and the exit codes that --help promises."""

import collections
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import muster_program as muster

STEPS = 12
RANKS = 2
PYTHON = os.environ.get("MUSTER_PYTHON", str(muster.ROOT / ".venv/bin/python"))
TEXT = "def function_1(x, y):\n    return x * 2 + y\n"


def one_object(done):
    """The JSON object that is all of standard output."""
    lines = done.stdout.splitlines()
    assert len(lines) == 1 and done.stdout.endswith("\n"), f"not one line: {done.stdout[:2000]!r}"
    value = json.loads(lines[0])
    assert isinstance(value, dict), value
    return value


class VerbTest(unittest.TestCase):
    """One finished run, shared by all tests of this file."""

    @classmethod
    def setUpClass(cls):
        global run_folder
        if run_folder is None:
            run_folder = tempfile.TemporaryDirectory(prefix="muster-verbs-")
            unittest.addModuleCleanup(run_folder.cleanup)
            path = pathlib.Path(run_folder.name)
            config = muster.write_config(path, steps=STEPS)
            done = muster.run("train", config, "--run-dir", path / "run", "--workers", RANKS, "--json")
            (path / "trained.json").write_text(done.stdout)
        cls.path = pathlib.Path(run_folder.name)
        cls.config, cls.run_dir = cls.path / "tiny.toml", cls.path / "run"
        cls.tokenizer = cls.run_dir / "tokenizer.json"
        lines = (cls.path / "trained.json").read_text().splitlines()
        assert len(lines) == 1, lines
        cls.trained = json.loads(lines[0])
        cls.checkpoint = cls.trained["checkpoint"]

    def ask(self, *arguments, code=0, keys=(), **options):
        """What --json prints; it must hold `keys`."""
        done = muster.run(*arguments, "--json", check=False, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        answer = one_object(done)
        self.assertLessEqual(set(keys), set(answer))
        return answer

    def refused(self, *arguments, code=1, said="", env=None):
        """Nothing on standard output, a message of the verb on standard error."""
        done = muster.run(*arguments, check=False, env=env)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        self.assertIn(said, done.stderr)
        return done.stderr

    def encode(self, text):
        path = self.path / "encoded.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.ask("tokenizer", "encode", "--tokenizer", self.tokenizer, path)["ids"]

    def copy_of_checkpoint(self, name):
        folder = self.path / name
        shutil.copytree(self.checkpoint, folder)
        self.addCleanup(shutil.rmtree, folder)
        return folder


run_folder = None


class Train(VerbTest):
    def test_what_it_reports(self):
        promised = {"run_dir", "steps", "tokens", "loss", "validation_bits_per_byte", "tokens_per_second", "mfu"}
        promised |= {"restarts", "checkpoint", "digest", "ledger"}
        self.assertLessEqual(promised, set(self.trained))
        self.assertEqual(set(self.trained["mfu"]), {"label", "value"})
        self.assertEqual(self.trained["steps"], STEPS)
        self.assertEqual(self.trained["restarts"], 0)
        logged = [json.loads(line) for line in (self.run_dir / "steps.jsonl").read_text().splitlines()]
        self.assertEqual(self.trained["loss"], logged[-1]["loss"])
        self.assertEqual(self.trained["tokens"], sum(record["tokens"] for record in logged))
        self.assertTrue((self.run_dir / "report.html").exists())
        self.assertTrue((self.run_dir / "report.md").exists())


class Generate(VerbTest):
    KEYS = {"text", "tokens", "tokens_per_second"}

    def generate(self, *arguments, most=24):
        arguments = ("generate", "--checkpoint", self.run_dir, "--max-tokens", most, *arguments)
        answer = self.ask(*arguments, keys=self.KEYS)
        self.assertGreater(answer["tokens"], 0)
        self.assertLessEqual(answer["tokens"], most)
        return answer["text"]

    def test_what_cannot_be_meant_is_refused(self):
        ask, score = (
            ("generate", "--checkpoint", self.run_dir, "--prompt", "x"),
            ("score", "--checkpoint", self.run_dir),
        )
        for words in (
            (*ask, "--temperature", -1),
            (*ask, "--top-p", 0),
            (*ask, "--top-k", -1),
            (*score, "--tokens", "5,x"),
            (*score, "--tokens", "5,6", "--stride", -3),
            (*score, "--tokens", "5,6", "--threads", 0),
        ):
            with self.subTest(words=words):
                self.refused(*words, code=2)
        self.refused("config", "explain", self.config, env={"MUSTER_TRAIN__STEPZ": "3"}, said="'train.steps'")
        self.refused("ckpt", "ls", self.path, said="no run directory")
        binary = self.path / "ids.bin"
        binary.write_bytes(bytes(range(256)))
        self.refused("tokenizer", "decode", "--tokenizer", self.tokenizer, binary, said=".u32")

    def test_the_likeliest_tokens(self):
        greedy = self.generate("--prompt", "def ")
        self.assertEqual(self.generate("--prompt", "def ", "--temperature", 0, "--seed", 5), greedy)
        # Drawing among the one likeliest token leaves no choice.
        self.assertEqual(self.generate("--prompt", "def ", "--temperature", 1, "--top-k", 1, "--seed", 5), greedy)
        self.assertEqual(self.generate("--prompt", "def ", "--temperature", 1, "--top-p", 1e-9, "--seed", 6), greedy)

    def test_a_seed_gives_the_same_text_again(self):
        def draw(seed):
            return self.generate("--prompt", "def ", "--temperature", 1, "--seed", seed)

        texts = [draw(seed) for seed in range(1, 5)]
        self.assertEqual([draw(seed) for seed in range(1, 5)], texts)
        self.assertGreater(len(set(texts)), 1)

    def test_the_middle_between_a_prefix_and_a_suffix(self):
        def fill(suffix):
            around = ("--prefix", "def function", "--suffix", suffix, "--temperature", 1)
            return [self.generate(*around, "--seed", seed) for seed in range(1, 5)]

        texts = fill("return x\n")
        self.assertEqual(fill("return x\n"), texts)
        self.assertNotEqual(fill(" * * *"), texts)  # the suffix is read

    def test_text_without_json(self):
        arguments = ("generate", "--checkpoint", self.checkpoint, "--prompt", "def ", "--max-tokens", 8)
        self.assertEqual(muster.run(*arguments).stdout, self.ask(*arguments)["text"] + "\n")

    def test_wrong_arguments(self):
        given = ("generate", "--checkpoint", self.run_dir)
        for arguments in (
            given,
            ("generate", "--prompt", "x"),
            (*given, "--prompt", "x", "--suffix", "y"),
            (*given, "--prompt", "x", "--max-tokens", "many"),
            (*given, "--prompt", "x", "--max-tokens", "-1"),
            (*given, "--prompt", "x", "--threads", "0"),
        ):
            with self.subTest(arguments=arguments[1:]):
                self.refused(*arguments, code=2, said="muster generate: ")


class Score(VerbTest):
    KEYS = {"logprobs", "loss", "bits_per_byte"}

    def score(self, *arguments):
        return self.ask("score", "--checkpoint", self.run_dir, *arguments, keys=self.KEYS)

    def consistent(self, score, count, size):
        """`count` log-probabilities; loss and bits per byte follow from them and the predicted text's size in bytes."""
        logprobs = score["logprobs"]
        self.assertEqual(len(logprobs), count)
        self.assertTrue(all(x < 0 for x in logprobs))
        self.assertAlmostEqual(score["loss"], -math.fsum(logprobs) / count, delta=1e-12)
        self.assertAlmostEqual(
            score["bits_per_byte"], -math.fsum(logprobs) / math.log(2) / size, delta=1e-12 * score["bits_per_byte"]
        )

    def test_token_ids(self):
        ids = self.encode(TEXT)
        rest = self.path / "rest.u32"
        rest.write_bytes(struct.pack(f"<{len(ids) - 1}I", *ids[1:]))
        predicted = self.ask("tokenizer", "decode", "--tokenizer", self.tokenizer, rest)["text"]
        self.assertLess(len(predicted), len(TEXT))  # the first token is not predicted, so not counted
        listed = ",".join(map(str, ids))
        double = self.score("--tokens", listed, "--dtype", "float64")
        self.consistent(double, len(ids) - 1, len(predicted.encode()))
        single = self.score("--tokens", listed)
        self.consistent(single, len(ids) - 1, len(predicted.encode()))
        self.assertNotEqual(single["logprobs"], double["logprobs"])
        for a, b in zip(single["logprobs"], double["logprobs"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_a_text(self):
        text = self.path / "text.py"
        text.write_text(TEXT + "# größer\n")
        size = len(text.read_bytes())
        ids = self.encode(text.read_bytes())
        score = self.score("--text", text, "--dtype", "float64")
        self.consistent(score, len(ids), size)  # <|endoftext|> stands before the text
        (end,) = self.ask(
            "tokenizer", "encode", "--tokenizer", self.tokenizer, "--special", self.file("end", "<|endoftext|>")
        )["ids"]
        listed = ",".join(map(str, [end, *ids]))
        self.assertEqual(self.score("--tokens", listed, "--dtype", "float64")["logprobs"], score["logprobs"])

    def file(self, name, text):
        path = self.path / name
        path.write_text(text)
        return path

    def test_a_text_longer_than_the_context(self):
        text = self.file("long.py", TEXT * 8)
        ids = self.encode(TEXT * 8)
        self.assertGreater(len(ids), 64)
        score = self.score("--text", text, "--dtype", "float64")
        self.consistent(score, len(ids), len(TEXT * 8))
        # The first window is the start of the text alone.
        start = self.score("--text", self.file("start.py", TEXT), "--dtype", "float64")["logprobs"]
        self.assertEqual(score["logprobs"][: len(start) - 1], start[:-1])

    def test_wrong_arguments(self):
        given = ("score", "--checkpoint", self.run_dir)
        for arguments in (
            given,
            ("score", "--tokens", "5,6"),
            (*given, "--tokens", "5,6", "--text", self.config),
            (*given, "--tokens", "5,6", "--dtype", "float16"),
        ):
            with self.subTest(arguments=arguments[1:]):
                self.refused(*arguments, code=2, said="muster score: ")

    def test_tokens_that_cannot_be_scored(self):
        given = ("score", "--checkpoint", self.run_dir, "--tokens")
        self.refused(*given, "5", said="at least 2 tokens, got 1")
        self.refused(*given, "5,320", said="token 1 has id 320, the model's vocabulary has 320 rows")


class Plan(VerbTest):
    def test_every_operation_is_predicted(self):
        # FLOPs of the model in tiny.toml: 6 a weight and token of every matrix product, 12 times the width a layer and
        # visible pair (2 sequences of 64, causal).
        hidden, layers, mlp, kv, vocabulary = 32, 2, 64, 16, 320
        weights = layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * mlp) + hidden * vocabulary
        pairs, tokens = 2 * 64 * 65 // 2, 2 * 64
        micro_batch = 6 * weights * tokens + 12 * hidden * layers * pairs
        for workers in (1, 2, 4):
            with self.subTest(workers=workers):
                plan = self.ask(
                    "plan", self.config, "--workers", workers, keys=("operations", "memory", "predicted", "flops")
                )
                operations = plan["operations"]
                self.assertEqual(plan["flops"]["rank_step"], micro_batch * 4 // workers)
                self.assertEqual(sum(o["flops"] for o in operations), micro_batch * 4 // workers)
                self.assertEqual(
                    max(o["start_ns"] + o["duration_ns"] for o in operations), plan["predicted"]["step_ns"]
                )
                self.assertEqual(plan["parameters"]["matmul"], weights)
                kinds = collections.Counter(o["kind"] for o in operations)
                self.assertEqual(kinds["forward"], kinds["backward_weight"])
                for operation in operations:
                    self.assertLessEqual(
                        {"kind", "subject", "duration_ns", "bytes", "flops", "workspace"}, set(operation)
                    )
        self.assertIn("layers.1.attention", muster.run("plan", self.config).stdout)

    def test_what_cannot_be_planned(self):
        self.refused("plan", self.config, "--workers", 5, said="more than the 4 micro-batches")
        self.refused("plan", self.config, "--rank", 2, said="ranks count from 0 to 1")
        self.refused("plan", self.config, "--memory-gb", 0, code=2, said="--memory-gb = 0")


class Data(VerbTest):
    def test_what_a_corpus_holds(self):
        corpus = self.path / "inspected"
        corpus.mkdir()
        texts = {"a.py": "x = 1\n", "b.py": "# größer\n" * 3}
        for name, text in texts.items():
            (corpus / name).write_text(text)
        (corpus / "bad.py").write_bytes(b"\xff\xfe\x00")
        (corpus / "empty.py").touch()
        (corpus / "link.py").symlink_to("a.py")
        all_of_it = ("--set", f'data.paths=["{corpus}"]', "--set", "data.holdout=0", "--set", "data.tokenizer=bytes")
        found = self.ask("data", "inspect", self.config, *all_of_it)
        sizes = {name: len(text.encode()) for name, text in texts.items()}
        self.assertEqual(found["documents"], {"train": 2, "held_out": 0})
        self.assertEqual(found["bytes"], {"train": sum(sizes.values()), "held_out": 0})
        skipped = {key: count for key, count in found["skipped"].items() if count}
        self.assertEqual(skipped, {"links": 1, "not_utf8": 1, "empty": 1})
        # A byte is a token, and a separator follows each document.
        self.assertEqual(found["tokens"], sum(sizes.values()) + 2)
        self.assertEqual(found["vocabulary"], 256 + 5)
        self.assertEqual(found["longest_document"], {"tokens": sizes["b.py"] + 1, "name": str(corpus / "b.py")})
        (corpus / "a.py").write_text("x = 2\n")
        again = self.ask("data", "inspect", self.config, *all_of_it)
        self.assertNotEqual(again["fingerprint"], found["fingerprint"])

    def test_the_held_out_part(self):
        found = self.ask("data", "inspect", self.config)
        sizes = [p.stat().st_size for p in (self.path / "corpus").iterdir()]
        self.assertEqual(found["files"], len(sizes))
        self.assertGreater(found["documents"]["held_out"], 0)
        self.assertEqual(sum(found["documents"].values()), len(sizes))
        self.assertEqual(sum(found["bytes"].values()), sum(sizes))
        self.assertEqual(found["vocabulary"], 320)
        self.assertEqual(found["sequences"], found["tokens"] // 64)
        self.assertAlmostEqual(found["bytes_per_token"], found["bytes"]["train"] / found["tokens"], delta=1e-12)


class ConfigExplain(VerbTest):
    def test_every_value_knows_its_origin(self):
        settings = self.ask(
            "config",
            "explain",
            self.config,
            "--set",
            "train.seed=7",
            env={"MUSTER_OPTIMIZER__CLIP": "0.5", "MUSTER_TRAIN__SEED": "6"},
        )
        line = self.config.read_text().splitlines().index("layers = 2") + 1
        self.assertEqual(settings["model.layers"], {"value": "2", "origin": f"{self.config}:{line}"})
        self.assertEqual(settings["optimizer.clip"], {"value": "0.5", "origin": "MUSTER_OPTIMIZER__CLIP"})
        self.assertEqual(settings["train.seed"]["value"], "7")  # --set is stronger than the environment
        self.assertIn("--set", settings["train.seed"]["origin"])
        self.assertEqual(settings["train.mode"], {"value": '"strict"', "origin": "default"})
        shown = muster.run("config", "explain", self.config, env={"MUSTER_OPTIMIZER__CLIP": "0.5"}).stdout
        self.assertRegex(shown, r"optimizer\.clip +0\.5 +MUSTER_OPTIMIZER__CLIP ")

    def test_unknown_keys_and_wrong_values(self):
        explain = ("config", "explain", self.config, "--json")
        self.refused(*explain, "--set", "train.stepz=3", said="'train.stepz'; did you mean 'train.steps'?")
        bad = self.path / "bad.toml"
        bad.write_text(self.config.read_text().replace("warmup_steps", "warmup_stepps"))
        line = bad.read_text().splitlines().index("warmup_stepps = 2") + 1
        error = self.refused("config", "explain", bad, "--json", said="did you mean 'optimizer.warmup_steps'?")
        self.assertIn(f"{bad}:{line}", error)
        self.refused(*explain, "--set", "train.steps=0", said="train.steps = 0 is outside its range")
        self.refused(*explain, env={"MUSTER_TRAIN__STEPS": "many"}, said="MUSTER_TRAIN__STEPS: train.steps")
        self.refused("config", "show", self.config, code=2, said="muster config explain FILE")


class Ckpt(VerbTest):
    def test_ls(self):
        listed = self.ask("ckpt", "ls", self.run_dir, keys=("checkpoints",))["checkpoints"]
        # The one of step 8 is left out where the disk still writes that of step 4.
        self.assertIn([c["step"] for c in listed], ([12, 8, 4], [12, 4]))
        self.assertEqual(listed[0]["folder"], self.checkpoint)
        for found in listed:
            self.assertTrue(found["valid"], found)
            self.assertEqual(found["problems"], [])
            self.assertIn(found["uuid"], found["folder"])

    def test_show(self):
        shown = self.ask("ckpt", "show", self.checkpoint)
        self.assertEqual(shown["folder"], self.checkpoint)
        self.assertEqual((shown["step"], shown["rng"]), (STEPS, {"seed": 1, "step": STEPS}))
        tensors = {tensor["name"]: tensor for tensor in shown["tensors"]}
        self.assertEqual(tensors["lm_head.weight"]["shape"], [320, 32])
        roles = collections.Counter(tensor["role"] for tensor in shown["tensors"])
        self.assertEqual(roles["moment"], 2 * roles["parameter"])
        for file in shown["files"]:
            self.assertEqual(os.path.getsize(f"{self.checkpoint}/{file['name']}"), file["bytes"])
        # A run stands for its newest checkpoint.
        self.assertEqual(self.ask("ckpt", "show", self.run_dir), shown)

    def test_verify(self):
        self.assertEqual(self.ask("ckpt", "verify", self.checkpoint)["problems"], [])
        copy = self.copy_of_checkpoint("flipped")
        self.assertTrue(self.ask("ckpt", "verify", copy)["valid"])
        files = sorted(path for path in copy.iterdir() if path.is_file())
        self.assertGreater(len(files), 3)
        for path in files:
            with self.subTest(file=path.name):
                sound = path.read_bytes()
                place = len(sound) // 2
                path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
                answer = self.ask("ckpt", "verify", copy, code=1, keys=("valid", "problems"))
                self.assertIs(answer["valid"], False)
                self.assertTrue(answer["problems"])
                self.assertIn(path.name, " ".join(answer["problems"]))
                path.write_bytes(sound)
        self.assertTrue(self.ask("ckpt", "verify", copy)["valid"])

    def test_digest(self):
        for place in (self.checkpoint, self.run_dir):
            answer = self.ask("ckpt", "digest", place)
            self.assertEqual((answer["digest"], answer["step"]), (self.trained["digest"], STEPS))
        self.assertEqual(muster.run("ckpt", "digest", self.checkpoint).stdout, self.trained["digest"] + "\n")
        before = self.ask("ckpt", "ls", self.run_dir)["checkpoints"][1]["folder"]
        self.assertNotEqual(self.ask("ckpt", "digest", before)["digest"], self.trained["digest"])

    def test_what_is_no_checkpoint(self):
        answer = self.ask("ckpt", "verify", self.path / "missing", code=1, keys=("valid", "problems"))
        self.assertIs(answer["valid"], False)
        self.assertIn("missing", answer["problems"][0])
        for word in ("show", "digest", "ls"):
            self.refused("ckpt", word, self.path / "missing", "--json", said=str(self.path / "missing"))
        copy = self.copy_of_checkpoint("cut")
        os.truncate(next(copy.glob("shard-*")), 1000)
        self.refused("ckpt", "digest", copy, "--json", said="shard-")
        self.refused("ckpt", "mend", copy, code=2, said="usage: muster ckpt")


class Goodput(VerbTest):
    def test_every_rank_second_is_in_one_leaf(self):
        answer = self.ask("goodput", self.run_dir)
        ledger = dict(answer["ledger"])
        total = ledger.pop("total")
        self.assertTrue(all(isinstance(ns, int) and ns >= 0 for ns in (total, *ledger.values())))
        self.assertEqual(sum(ledger.values()), total)
        self.assertEqual(total, RANKS * (answer["end_ns"] - answer["launch_ns"]))
        self.assertEqual(len(answer["by_rank"]), RANKS)
        for leaf, ns in ledger.items():
            self.assertEqual(sum(rank[leaf] for rank in answer["by_rank"]), ns, leaf)
        for rank in answer["by_rank"]:
            self.assertEqual(sum(rank.values()), answer["end_ns"] - answer["launch_ns"])
        self.assertEqual((answer["state"], answer["restarts"]), ("succeeded", 0))
        self.assertEqual(answer["ledger"], self.trained["ledger"])
        self.assertGreater(ledger["step.compute"], 0)
        self.assertEqual(ledger["rework"], 0)


class TraceExport(VerbTest):
    def test_a_run_for_perfetto(self):
        file = self.path / "run.pftrace"
        answer = self.ask("trace", "export", self.run_dir, "-o", file)
        self.assertEqual((answer["bytes"], answer["lost_records"]), (file.stat().st_size, 0))
        self.assertEqual(answer["processes"], RANKS)
        if subprocess.run([PYTHON, "-c", "import perfetto.protos"], capture_output=True).returncode != 0:
            self.skipTest(f"{PYTHON} has no package perfetto to decode the file with")
        decoder = muster.ROOT / "src/insight/export/decode_perfetto.py"
        decoded = json.loads(subprocess.run([PYTHON, decoder, file], capture_output=True, check=True).stdout)
        self.assertEqual(decoded["problems"], [])
        self.assertEqual(len(decoded["slices"]), answer["slices"])
        self.assertEqual(len(decoded["instants"]), answer["instants"])
        labels = {track["label"] for track in decoded["tracks"]}
        self.assertLessEqual({f"rank {rank}, attempt 0" for rank in range(RANKS)}, labels)
        steps = [piece["notes"]["a"] for piece in decoded["slices"] if piece["name"] == "step"]
        self.assertEqual(sorted(steps), sorted(RANKS * list(range(1, STEPS + 1))))
        # What goodput says of the whole run lies inside it.
        goodput = self.ask("goodput", self.run_dir)
        for piece in decoded["slices"]:
            self.assertGreaterEqual(piece["time"], goodput["launch_ns"])
            self.assertLessEqual(piece["time"] + piece["duration"], goodput["end_ns"])
        self.assertIn("job.launch", {instant["name"] for instant in decoded["instants"]})

    def test_wrong_arguments(self):
        self.refused("trace", "export", self.run_dir, code=2, said="-o FILE is missing")
        self.refused("trace", "export", self.run_dir, "-o", self.path / "no/such/file", said="no/such/file")


class Tokenizer(VerbTest):
    def test_training(self):
        out = self.path / "trained-tokenizer.json"
        train = ("tokenizer", "train", self.path / "corpus", "--vocab-size", 300)
        answer = self.ask(*train, "-o", out)
        self.assertEqual((answer["vocabulary_size"], answer["documents"], answer["skipped"]), (300, 40, 0))
        self.assertEqual(answer["merges"], 300 - 256 - 5)
        parsed = json.loads(out.read_text())
        self.assertEqual(len(parsed["model"]["merges"]), answer["merges"])
        self.assertIn("<|endoftext|>", [token["content"] for token in parsed["added_tokens"]])
        # Any number of threads makes the same file.
        again = self.path / "again-tokenizer.json"
        self.ask(*train, "-o", again, "--threads", 3)
        self.assertEqual(again.read_bytes(), out.read_bytes())

    def test_texts_come_back(self):
        for number, text in enumerate((TEXT, "größer 漢字 🙂\r\n\t<|endoftext|> 'tis\0", " ")):
            with self.subTest(text=text):
                source, ids, back = (self.path / f"{number}.{ending}" for ending in ("txt", "u32", "back"))
                source.write_bytes(text.encode())
                answer = self.ask("tokenizer", "encode", "--tokenizer", self.tokenizer, source, keys=("ids",))
                self.assertEqual(answer.get("replaced", 0), 0)
                muster.run("tokenizer", "encode", "--tokenizer", self.tokenizer, source, "-o", ids)
                count = ids.stat().st_size // 4
                self.assertEqual(list(struct.unpack(f"<{count}I", ids.read_bytes())), answer["ids"])
                self.assertEqual(
                    self.ask("tokenizer", "decode", "--tokenizer", self.tokenizer, ids, keys=("text",))["text"], text
                )
                muster.run("tokenizer", "decode", "--tokenizer", self.tokenizer, ids, "-o", back)
                self.assertEqual(back.read_bytes(), source.read_bytes())
                encoded = self.path / "encoded.json"
                encoded.write_text(json.dumps(answer))
                self.assertEqual(self.ask("tokenizer", "decode", "--tokenizer", self.tokenizer, encoded)["text"], text)

    def test_bytes_that_are_not_utf8(self):
        for number, data in enumerate(
            (
                b"a\xffb",
                b"cut \xf0\x9f\x98 here",
                b"\xc0\x80 overlong",
                b"\xed\xa0\x80 half a pair",
                b"at the end \xe2\x82",
            )
        ):
            with self.subTest(data=data):
                source = self.path / f"invalid-{number}"
                source.write_bytes(data)
                ids = self.path / f"invalid-{number}.u32"
                answer = self.ask("tokenizer", "encode", "--tokenizer", self.tokenizer, source)
                muster.run("tokenizer", "encode", "--tokenizer", self.tokenizer, source, "-o", ids)
                text = self.ask("tokenizer", "decode", "--tokenizer", self.tokenizer, ids)["text"]
                self.assertEqual(text, data.decode("utf-8", "replace"))
                self.assertEqual(answer["replaced"], text.count("\ufffd"))
                self.assertEqual(answer["ids"], self.encode(text))

    def test_special_tokens_only_when_asked_for(self):
        source = self.path / "special.txt"
        source.write_text("<|endoftext|>")
        encode = ("tokenizer", "encode", "--tokenizer", self.tokenizer, source)
        self.assertGreater(len(self.ask(*encode)["ids"]), 1)
        (end,) = self.ask(*encode, "--special")["ids"]
        ids = self.path / "special.ids"
        ids.write_text(f"{end}\n")
        decode = ("tokenizer", "decode", "--tokenizer", self.tokenizer, ids)
        self.assertEqual(self.ask(*decode)["text"], "<|endoftext|>")
        self.assertEqual(self.ask(*decode, "--skip-special")["text"], "")

    def test_what_cannot_be_done(self):
        bad = self.path / "bad.ids"
        bad.write_text("1 2 three")
        decode = ("tokenizer", "decode", "--tokenizer", self.tokenizer)
        self.refused(*decode, bad, said="'three' is no token id")
        bad.write_text("1 999999")
        self.refused(*decode, bad, said="999999")
        self.refused("tokenizer", "encode", "--tokenizer", self.config, self.config, said=str(self.config))
        self.refused("tokenizer", code=2, said="usage: muster tokenizer")
        self.refused("tokenizer", "train", code=2, said="no files to train on")
        self.refused("tokenizer", "train", self.path, "--pattern", "word", code=2, said="unknown pattern 'word'")


class HuggingFace(VerbTest):
    def test_a_trained_model_goes_out_and_comes_back(self):
        hf, back = self.path / "hf", self.path / "back"
        out = self.ask("export-hf", self.checkpoint, "-o", hf)
        self.assertEqual((out["step"], out["tokenizer"]), (STEPS, True))
        self.assertEqual((hf / "tokenizer.json").read_bytes(), self.tokenizer.read_bytes())
        read = self.ask("import-hf", hf, "-o", back)
        self.assertEqual((read["parameters"], read["tokenizer"]), (out["parameters"], True))
        self.assertTrue(self.ask("ckpt", "verify", back)["valid"])
        score = ("score", "--text", self.config, "--dtype", "float64", "--checkpoint")
        self.assertEqual(self.ask(*score, back), self.ask(*score, self.checkpoint))


class EveryVerb(VerbTest):
    VERBS = (
        ("train",),
        ("run",),
        ("torchrun",),
        ("generate",),
        ("score",),
        ("data",),
        ("config",),
        ("tokenizer", "train"),
        ("tokenizer", "encode"),
        ("tokenizer", "decode"),
        ("ckpt", "ls"),
        ("ckpt", "show"),
        ("ckpt", "verify"),
        ("ckpt", "digest"),
        ("goodput",),
        ("trace", "export"),
        ("plan",),
        ("import-hf",),
        ("export-hf",),
    )

    def test_help_names_the_exit_codes(self):
        for verb in self.VERBS:
            with self.subTest(verb=verb):
                done = muster.run(*verb, "--help")
                self.assertEqual(done.stderr, "")
                self.assertRegex(done.stdout, r"(?i)exit codes?[: ]")

    def test_unknown_options_are_wrong_arguments(self):
        for verb in self.VERBS:
            with self.subTest(verb=verb):
                error = self.refused(*verb, "--nonsense", code=2)
                self.assertIn(f"muster {verb[0]}", error)
        self.refused("trian", code=2, said="unknown verb 'trian'")
        self.refused(code=2, said="usage: muster VERB")

    def test_missing_arguments_are_wrong_arguments(self):
        encode_and_decode = {("tokenizer", "encode"), ("tokenizer", "decode")}  # they read standard input
        for verb in self.VERBS:
            if verb not in encode_and_decode:
                with self.subTest(verb=verb):
                    self.refused(*verb, code=2)

    def test_missing_files_are_named(self):
        gone = self.path / "gone"
        for arguments in (
            ("train", gone),
            ("generate", "--checkpoint", gone, "--prompt", "x"),
            ("score", "--checkpoint", gone, "--tokens", "1,2"),
            ("score", "--checkpoint", self.checkpoint, "--text", gone),
            ("data", "inspect", gone),
            ("config", "explain", gone),
            ("tokenizer", "train", gone, "-o", self.path / "unused.json"),
            ("tokenizer", "encode", "--tokenizer", gone, self.config),
            ("tokenizer", "encode", "--tokenizer", self.tokenizer, gone),
            ("tokenizer", "decode", "--tokenizer", self.tokenizer, gone),
            ("goodput", gone),
            ("trace", "export", gone, "-o", self.path / "unused.pftrace"),
            ("plan", gone),
            ("import-hf", gone, "-o", self.path / "unused"),
            ("export-hf", gone, "-o", self.path / "unused"),
        ):
            with self.subTest(arguments=arguments):
                error = self.refused(*arguments, "--json", said=str(gone))
                self.assertTrue(error.startswith(f"muster {arguments[0]}"), error)
        for name in ("unused", "unused.json", "unused.pftrace"):
            self.assertFalse((self.path / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
