"""`muster score`: text and tokens agree, whatever bytes the text holds."""

import math
import pathlib
import tempfile
import unittest

import muster_program as muster

TEXTS = {
    "plain": b"def f(x):\n    return x\n",
    "lone bytes": b"caf\xe9 \xff\xfe end\n",
    "cut sequences": b"\xe2\x82 a \xf0\x9f\x98",
    "surrogate": b"x\xed\xa0\x80y",
    "characters": "na\u00efve \u20ac \U0001f600\n".encode(),
}


class Score(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="muster-score-")
        cls.path = pathlib.Path(cls.folder.name)
        config = muster.write_config(cls.path, steps=2)
        cls.run_dir = cls.path / "run"
        muster.run_json("train", config, "--workers", 1, "--run-dir", cls.run_dir)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_text_is_read_as_encode_reads_it(self):
        for name, text in TEXTS.items():
            with self.subTest(text=name):
                file = self.path / "text"
                file.write_bytes(text)
                replaced = text.decode("utf-8", "replace")
                count = replaced.count("\ufffd")
                tokenizer = self.run_dir / "tokenizer.json"
                encoded = muster.run_json("tokenizer", "encode", "--tokenizer", tokenizer, file)
                self.assertEqual(encoded["replaced"], count)
                run = muster.run("score", "--checkpoint", self.run_dir, "--text", file)
                self.assertEqual(f"{count} invalid UTF-8 sequences" in run.stderr, count > 0)
                scored = muster.run_json("score", "--checkpoint", self.run_dir, "--text", file)
                self.assertEqual(scored["replaced"], count)
                # Documents begin with <|endoftext|>, the first token.
                ids = ",".join(map(str, [0, *encoded["ids"]]))
                same = muster.run_json("score", "--checkpoint", self.run_dir, "--tokens", ids)
                self.assertEqual(scored["logprobs"], same["logprobs"])
                bits = -math.fsum(scored["logprobs"]) / math.log(2)
                self.assertAlmostEqual(scored["bits_per_byte"], bits / len(replaced.encode()), 9)

    def test_a_text_without_a_token_is_refused(self):
        (self.path / "empty").write_bytes(b"")
        run = muster.run("score", "--checkpoint", self.run_dir, "--text", self.path / "empty", check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("at least 2 tokens", run.stderr)


if __name__ == "__main__":
    unittest.main()
