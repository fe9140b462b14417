"""import-hf and export-hf: a Hugging Face folder goes in and comes out with the same bits; bad folders are refused."""

import json
import pathlib
import random
import struct
import tempfile
import unittest

import muster_program as muster

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def tensors():
    """Name -> (shape, float32 bytes), the same on every machine."""
    draw = random.Random(1)
    shapes = {"model.embed_tokens.weight": [40, 8], "model.norm.weight": [8], "lm_head.weight": [40, 8]}
    for i in range(2):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "input_layernorm.weight": [8],
            layer + "post_attention_layernorm.weight": [8],
            layer + "self_attn.q_proj.weight": [8, 8],
            layer + "self_attn.k_proj.weight": [4, 8],
            layer + "self_attn.v_proj.weight": [4, 8],
            layer + "self_attn.o_proj.weight": [8, 8],
            layer + "mlp.gate_proj.weight": [12, 8],
            layer + "mlp.up_proj.weight": [12, 8],
            layer + "mlp.down_proj.weight": [8, 12],
        }
    result = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        result[name] = (shape, struct.pack(f"<{count}f", *(draw.gauss(0, 0.1) for _ in range(count))))
    return result


def write_safetensors(path, weights):
    header, body = {}, b""
    for name, (shape, data) in weights.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {
        name: (t["shape"], data[begin + t["data_offsets"][0] : begin + t["data_offsets"][1]])
        for name, t in header.items()
    }


class HfFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="muster-hf-")
        self.path = pathlib.Path(self.folder.name)
        self.model = self.path / "hf"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(CONFIG))
        write_safetensors(self.model / "model.safetensors", tensors())

    def tearDown(self):
        self.folder.cleanup()

    def refused(self, *arguments, code=1):
        done = muster.run(*arguments, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_round_trip_keeps_every_bit(self):
        report = muster.run_json("import-hf", self.model, "-o", self.path / "checkpoint")
        self.assertEqual(report["tensors"], len(tensors()))
        self.assertEqual(report["parameters"], sum(len(data) // 4 for _, data in tensors().values()))
        self.assertFalse(report["tokenizer"])
        muster.run("export-hf", self.path / "checkpoint", "-o", self.path / "out")
        self.assertEqual(read_safetensors(self.path / "out/model.safetensors"), tensors())
        config = json.loads((self.path / "out/config.json").read_text())
        for key, value in CONFIG.items():
            self.assertEqual(config[key], value, key)
        # What was exported imports again.
        muster.run("import-hf", self.path / "out", "-o", self.path / "again")

    def test_nothing_is_overwritten(self):
        muster.run("import-hf", self.model, "-o", self.path / "checkpoint")
        self.assertIn("already", self.refused("import-hf", self.model, "-o", self.path / "checkpoint"))
        self.assertIn("already", self.refused("export-hf", self.path / "checkpoint", "-o", self.model))

    def test_bad_folders_are_named(self):
        weights = tensors()
        del weights["model.norm.weight"]
        write_safetensors(self.model / "model.safetensors", weights)
        self.assertIn("missing: model.norm.weight", self.refused("import-hf", self.model, "-o", self.path / "x"))
        (self.model / "config.json").write_text(json.dumps(CONFIG | {"attention_bias": True}))
        self.assertIn("attention_bias", self.refused("import-hf", self.model, "-o", self.path / "x"))
        self.assertIn("config.json", self.refused("import-hf", self.path, "-o", self.path / "x"))
        self.refused("import-hf", self.model, code=2)
        self.assertFalse((self.path / "x").exists())

    def test_a_damaged_checkpoint_is_not_exported(self):
        muster.run("import-hf", self.model, "-o", self.path / "checkpoint")
        (shard,) = (self.path / "checkpoint").glob("*.safetensors")
        data = bytearray(shard.read_bytes())
        data[-5] ^= 1
        shard.write_bytes(data)
        self.refused("export-hf", self.path / "checkpoint", "-o", self.path / "out")
        self.assertFalse((self.path / "out/model.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
