"""What transformers computes from a model folder, in double precision, for tests.

Usage: reference.py FOLDER…
Each FOLDER holds config.json, model.safetensors and batch.safetensors (ids, labels: int64 [rows, length]). Written
there: expected.safetensors (logits, loss, grad.NAME for every parameter) and saved/, the folder as transformers
itself saves it. Exit code 1 and a line if transformers misses or does not know a tensor.
"""

import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM


def run(folder: str) -> None:
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float64,
        attn_implementation="eager",
        output_loading_info=True,
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = [n for n in info[kind] if n != "lm_head.weight" or not model.config.tie_word_embeddings]
        if names:
            sys.exit(f"{folder}: {kind}: {names}")
    model.eval()
    batch = load_file(f"{folder}/batch.safetensors")
    logits = model(batch["ids"]).logits
    # Not the model's own loss: it rounds logits to float32.
    loss = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1),
        batch["labels"][:, 1:].flatten(),
        ignore_index=-100,
    )
    loss.backward()
    expected = {"logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        expected[f"grad.{name}"] = parameter.grad
    save_file(
        {k: v.contiguous() for k, v in expected.items()},
        f"{folder}/expected.safetensors",
    )
    model.float().save_pretrained(f"{folder}/saved")


for argument in sys.argv[1:]:
    run(argument)
