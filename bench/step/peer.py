"""The PyTorch twin of a step: SDPA, fused AdamW, fused cross-entropy; prints the same JSON as muster_bench_step.

usage: peer.py mini|gpt2 eager|compile STEPS THREADS
"""

import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rope(x, cos, sin):  # x: [B, H, T, c]
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, d, heads, kv, mlp):
        super().__init__()
        self.c, self.heads, self.kv = d // heads, heads, kv
        self.norm1, self.norm2 = RmsNorm(d), RmsNorm(d)
        self.qkv = nn.Linear(d, (heads + 2 * kv) * self.c, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.gate_up = nn.Linear(d, 2 * mlp, bias=False)
        self.down = nn.Linear(mlp, d, bias=False)

    def forward(self, x, cos, sin):
        B, T, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).split((d, self.kv * self.c, self.kv * self.c), dim=-1)
        q = rope(q.view(B, T, self.heads, self.c).transpose(1, 2), cos, sin)
        k = rope(k.view(B, T, self.kv, self.c).transpose(1, 2), cos, sin)
        v = v.view(B, T, self.kv, self.c).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(o.transpose(1, 2).reshape(B, T, d))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Mini(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4096, 256)
        self.layers = nn.ModuleList(LlamaLayer(256, 8, 2, 688) for _ in range(6))
        self.norm = RmsNorm(256)
        self.head = nn.Linear(256, 4096, bias=False)
        angle = torch.outer(torch.arange(256.0), 10000 ** (-torch.arange(0, 32, 2) / 32))
        self.register_buffer("cos", torch.cat((angle, angle), -1).cos())
        self.register_buffer("sin", torch.cat((angle, angle), -1).sin())

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


class Gpt2Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        B, T, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(o.transpose(1, 2).reshape(B, T, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.layers = nn.ModuleList(Gpt2Layer(768, 12) for _ in range(12))
        self.norm = nn.LayerNorm(768)

    def forward(self, ids):
        x = self.embed(ids) + self.position.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed.weight)


def main():
    name, how, steps, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model, (rows, length) = (Mini(), (8, 256)) if name == "mini" else (Gpt2(), (4, 64))
    vocabulary = 4096 if name == "mini" else 50257
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)
    forward = torch.compile(model) if how == "compile" else model
    ids = torch.randint(vocabulary, (rows, length))
    targets = torch.randint(vocabulary, (rows * length,))
    cpu, wall, losses = [], [], []
    for _ in range(steps):
        begin_cpu, begin = time.process_time(), time.perf_counter()
        loss = F.cross_entropy(forward(ids).view(-1, vocabulary), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        cpu.append(time.process_time() - begin_cpu)
        wall.append(time.perf_counter() - begin)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu": cpu, "wall": wall, "losses": losses, "peak_rss": rss, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
