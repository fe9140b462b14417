"""The PyTorch twin of examples/shakespeare-char.toml: GPT-2 blocks, random windows of the first nine tenths of a text.

usage: twin.py FILE SEED STEPS
Prints {"loss": nats per byte of the held-out tenth in windows that do not overlap, "train_s", "torch"}.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCABULARY = 4, 4, 128, 64, 12, 261
LR, MIN_LR, WARMUP = 1e-3, 1e-4, 100


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for name, p in self.named_parameters():
            if p.dim() > 1:  # GPT-2's rule: what feeds the residual stream starts smaller
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids):
        x = self.embed(ids) + self.position.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed.weight)


def learning_rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    return MIN_LR + 0.5 * (LR - MIN_LR) * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))


def held_out_loss(model, data):
    windows = (len(data) - 1) // CONTEXT
    inputs = data[: windows * CONTEXT].view(windows, CONTEXT)
    targets = data[1 : windows * CONTEXT + 1].view(windows, CONTEXT)
    total = 0.0
    with torch.no_grad():
        for begin in range(0, windows, 64):
            logits = model(inputs[begin : begin + 64])
            flat = targets[begin : begin + 64].reshape(-1)
            total += F.cross_entropy(logits.view(-1, VOCABULARY), flat, reduction="sum").item()
    return total / (windows * CONTEXT)


def main():
    path, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    with open(path, "rb") as file:
        data = torch.tensor(list(file.read()), dtype=torch.long)
    cut = len(data) - len(data) // 10
    train, held_out = data[:cut], data[cut:]
    model = Gpt2()
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99), fused=True)
    begin = time.perf_counter()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        at = torch.randint(len(train) - CONTEXT, (BATCH,))
        inputs = torch.stack([train[i : i + CONTEXT] for i in at])
        targets = torch.stack([train[i + 1 : i + 1 + CONTEXT] for i in at])
        loss = F.cross_entropy(model(inputs).view(-1, VOCABULARY), targets.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    train_s = time.perf_counter() - begin
    print(json.dumps({"loss": held_out_loss(model, held_out), "train_s": train_s, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
