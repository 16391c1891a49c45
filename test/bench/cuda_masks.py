"""The masks and score regions that the CUDA benchmarks time, as FlexAttention, float64 and
our kernels are told of them.

"grouped" is full with 32 heads on 8; "grouped-causal" and "grouped64-causal" are causal, with
32 and 64 heads on 8; "lse" is causal with the lse written. The others are causal as well: a
window of 1024 keys, a softcap of 20, ALiBi, documents of 1024 by segment ids.
"""

import math

import torch
from compile_cuda import heads_of

TOKENS = 16384
WINDOW, SOFTCAP, DOCUMENT = 1024, 20.0, 1024
# What PyTorch's scaled_dot_product_attention takes.
PLAIN = ("full", "grouped", "causal", "lse", "grouped-causal", "grouped64-causal")


def is_causal(mask):
    return mask not in ("full", "grouped")


def batches(mask, length):
    return max(TOKENS // length // (2 if mask.startswith("grouped") else 1), 1)


def visible_pairs(mask, length):
    if not is_causal(mask):
        return length * length
    if mask == "window":
        return sum(min(i + 1, WINDOW) for i in range(length))
    if mask == "documents":
        whole, rest = divmod(length, DOCUMENT)
        return (whole * DOCUMENT**2 + rest**2) / 2
    return length * length / 2


def slopes(heads):
    return -(2.0 ** (-8 * torch.arange(1, heads + 1, device="cuda", dtype=torch.float32) / heads))


def document_ids(batch, length):
    return (torch.arange(length, device="cuda", dtype=torch.int32) // DOCUMENT).expand(batch, length).contiguous()


def captures(mask, batch, heads, length):
    """What a kernel takes behind queries, keys and values."""
    return {"alibi": [slopes(heads)], "documents": [document_ids(batch, length)] * 2}.get(mask, [])


def scores_of(q, k, mask, h, heads, rows=None):
    """Final scores of a head and their derivative, in the type of q, whose rows are `rows`."""
    scores, slope = q @ k.T / math.sqrt(q.shape[-1]), 1
    if mask == "softcap":
        tanh = torch.tanh(scores / SOFTCAP)
        scores, slope = SOFTCAP * tanh, 1 - tanh * tanh
    if not is_causal(mask):
        return scores, slope
    i = (torch.arange(q.shape[0], device="cuda") if rows is None else rows)[:, None]
    j = torch.arange(k.shape[0], device="cuda")[None, :]
    if mask == "alibi":
        scores += slopes(heads)[h].to(q.dtype) * (j - i)
    hidden = j > i
    if mask == "window":
        hidden |= i - j >= WINDOW
    if mask == "documents":
        hidden |= i // DOCUMENT != j // DOCUMENT
    return scores.masked_fill_(hidden, -math.inf), slope


def bind_flex(q, k, v, mask):
    """A call of FlexAttention."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length, slope = q.shape[2], slopes(q.shape[1])
    visible = {
        "window": lambda b, h, i, j: (i >= j) & (i - j < WINDOW),
        "documents": lambda b, h, i, j: (i >= j) & (i // DOCUMENT == j // DOCUMENT),
    }.get(mask, lambda b, h, i, j: i >= j)
    block_mask = None
    if is_causal(mask):
        block_mask = create_block_mask(visible, None, None, length, length, device="cuda")
    score_mod = {
        "softcap": lambda s, b, h, i, j: SOFTCAP * torch.tanh(s / SOFTCAP),
        "alibi": lambda s, b, h, i, j: s + slope[h] * (j - i),
    }.get(mask)
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    grouped = q.shape[1] != k.shape[1]
    return lambda q=q, k=k, v=v: compiled(q, k, v, score_mod=score_mod, block_mask=block_mask, enable_gqa=grouped)
