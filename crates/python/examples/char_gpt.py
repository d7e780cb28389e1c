"""Trains a character-level GPT on text, and writes some of its own.

Without arguments it reads this repository's docs/ and takes a minute or two on two cores. Ctrl-C saves and stops. `--resume`
with the same options goes on as if nothing had happened, to the last bit; a larger `--steps` trains for longer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import signal
import sys
import time
from pathlib import Path

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F
from flambeau.serialization import load_with_notes, save

# Files that count as text in a folder.
ENDINGS = (".md", ".txt", ".rs", ".toml", ".yaml", ".py")
# One character in so many is held out, and of a long held-out text so many sequences are measured.
HELD_OUT, MEASURED = 10, 256
# Gradients longer than this are cut.
LONGEST_GRADIENT = 1.0
# The options that decide what is learnt: a checkpoint goes on only with the same.
SETTINGS = ("layers", "width", "heads", "context", "batch", "dropout", "lr", "seed")


class Wrong(Exception):
    """Something the user can put right."""


def arguments(line: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    docs = Path(__file__).resolve().parents[3] / "docs"
    parser.add_argument("--text", type=Path, default=docs, help="a text file, or a folder of them, read in order of names")
    parser.add_argument("--out", type=Path, default=Path("out/char_gpt"), help="where checkpoint and loss curve are written")
    parser.add_argument("--resume", action="store_true", help="goes on from the checkpoint in --out")
    parser.add_argument("--steps", type=int, default=1500, help="training steps in all")
    parser.add_argument("--batch", type=int, default=16, help="sequences a step")
    parser.add_argument("--context", type=int, default=64, help="characters a sequence")
    parser.add_argument("--layers", type=int, default=4, help="transformer blocks")
    parser.add_argument("--width", type=int, default=128, help="width of the model; a multiple of --heads")
    parser.add_argument("--heads", type=int, default=4, help="attention heads")
    parser.add_argument("--dropout", type=float, default=0.1, help="part of activations dropped in training")
    parser.add_argument("--lr", type=float, default=3e-3, help="learning rate after warm-up")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights, data order and samples")
    parser.add_argument("--threads", type=int, default=0, help="0 for as many as there are cores; the result is the same")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints and held-out losses")
    parser.add_argument("--sample", type=int, default=400, help="characters to write at the end")
    parser.add_argument("--prompt", default="", help="what the sample begins with")
    parser.add_argument("--plot", action="store_true", help="draws loss.svg as well; needs matplotlib")
    args = parser.parse_args(line)
    for name in ("batch", "context", "layers", "width", "heads", "steps", "every"):
        if getattr(args, name) < 1:
            parser.error(f"expected --{name} of at least 1 but got {getattr(args, name)}")
    return args


class Text:
    """Characters as numbers: a part to train on, and the last tenth of each file held out."""

    def __init__(self, path: Path, context: int) -> None:
        texts = [self._read(file) for file in self._files(path)]
        self.alphabet = sorted(set("".join(texts)))
        self.number = {character: number for number, character in enumerate(self.alphabet)}
        train, held_out = [], []
        for text in texts:
            numbers = self.numbers(text)
            cut = len(numbers) - len(numbers) // HELD_OUT
            train += numbers[:cut]
            held_out += numbers[cut:]
        if min(len(train), len(held_out)) <= context:
            found = f"{len(train)} and {len(held_out)}"
            raise Wrong(f"{path}: expected more than {context} characters to train on and to hold out but got {found}")
        self.train, self.held_out = flambeau.tensor(train), flambeau.tensor(held_out)
        self.fingerprint = hashlib.sha256("\0".join(texts).encode()).hexdigest()

    @staticmethod
    def _files(path: Path) -> list[Path]:
        if not path.is_dir():
            return [path]
        inside = (file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
        found = sorted(file for file in inside if not any(p.startswith(".") for p in file.relative_to(path).parts))
        if not found:
            raise Wrong(f"{path}: expected files that end in {' '.join(ENDINGS)} but got none")
        return found

    @staticmethod
    def _read(file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Wrong(f"{file}: {error}") from error

    def numbers(self, characters: str) -> list[int]:
        strange = next((c for c in characters if c not in self.number), None)
        if strange is not None:
            raise Wrong(f"expected characters that the text has but got {strange!r}")
        return [self.number[c] for c in characters]

    def characters(self, numbers: list[int]) -> str:
        return "".join(self.alphabet[number] for number in numbers)

    def bigram_loss(self) -> float:
        """The model to beat: which character follows which, counted, plus one; its held-out loss in nats."""
        pairs = flambeau.ones(len(self.alphabet) ** 2, dtype=flambeau.float64)
        pair_index = lambda text: text[:-1] * len(self.alphabet) + text[1:]  # noqa: E731
        seen = pair_index(self.train)
        pairs.index_add_(0, seen, flambeau.ones(len(seen), dtype=flambeau.float64))
        table = pairs.view(len(self.alphabet), -1)
        likelihoods = (table / table.sum(1, keepdim=True)).view(-1)
        return -likelihoods[pair_index(self.held_out)].log().mean().item()


def sequences(text: Tensor, starts: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """Sequences of `context` characters that begin at `starts`, and the same one character on."""
    indices = starts.unsqueeze(1) + flambeau.arange(context)
    return text[indices], text[indices + 1]


class Block(nn.Module):
    """Causal attention, then a small network, each with a residual connection."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.heads = args.heads
        self.norm1, self.norm2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.look, self.answer = nn.Linear(args.width, 3 * args.width), nn.Linear(args.width, args.width)
        self.widen, self.narrow = nn.Linear(args.width, 4 * args.width), nn.Linear(4 * args.width, args.width)
        self.dropout = nn.Dropout(args.dropout)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.look(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        return self.answer(found.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.narrow(F.gelu(self.widen(self.norm2(x)))))


class Gpt(nn.Module):
    """A GPT-2 in small: pre-norm, with learned positions and an untied head."""

    def __init__(self, args: argparse.Namespace, alphabet: int) -> None:
        super().__init__()
        if args.width % args.heads != 0:
            raise Wrong(f"expected a --width that --heads divides but got {args.width} and {args.heads}")
        self.tokens, self.positions = nn.Embedding(alphabet, args.width), nn.Embedding(args.context, args.width)
        self.dropout = nn.Dropout(args.dropout)
        self.blocks = nn.Sequential(*(Block(args) for _ in range(args.layers)))
        self.norm, self.head = nn.LayerNorm(args.width), nn.Linear(args.width, alphabet, bias=False)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, 0.0, 0.02)

    def forward(self, text: Tensor) -> Tensor:
        x = self.tokens(text) + self.positions(flambeau.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(self.dropout(x))))

    def loss(self, text: Tensor, following: Tensor) -> Tensor:
        """The mean negative log likelihood, in nats a character."""
        return F.cross_entropy(self(text).flatten(0, 1), following.flatten())


class Training:
    """Everything that a checkpoint restores."""

    def __init__(self, args: argparse.Namespace, text: Text) -> None:
        self.args, self.text = args, text
        flambeau.manual_seed(args.seed)
        self.model = Gpt(args, len(text.alphabet))
        self.optimizer = flambeau.optim.AdamW(self.model.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.1)
        # (step, mean training loss since the measurement before, held-out loss), and losses since the last one.
        self.points: list[tuple[int, float, float]] = []
        self.recent: list[float] = []
        self.step, self.stopped = 0, False
        self.checkpoint = args.out / "checkpoint.safetensors"
        if args.resume:
            self.restore()

    def rate(self) -> float:
        """Up in a straight line, then down along half a wave to a twentieth."""
        warmup, low = self.args.steps // 20, self.args.lr / 20
        if self.step < warmup:
            return self.args.lr * self.step / warmup
        done = min((self.step - warmup) / max(self.args.steps - warmup, 1), 1.0)
        return low + (self.args.lr - low) * (1 + math.cos(math.pi * done)) / 2

    def train_step(self) -> float:
        self.model.train()
        positions = len(self.text.train) - self.args.context
        starts = flambeau.randint(positions, (self.args.batch,))
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        loss = self.model.loss(*sequences(self.text.train, starts, self.args.context))
        self.optimizer.zero_grad()
        loss.backward()
        length = nn.utils.clip_grad_norm_(self.model.parameters(), LONGEST_GRADIENT)
        loss = loss.item()
        if not (math.isfinite(loss) and math.isfinite(length.item())):
            raise Wrong(f"step {self.step + 1} has a loss of {loss}: try a smaller --lr")
        self.optimizer.step()
        self.step += 1
        self.recent.append(loss)
        return loss

    def measure(self) -> None:
        train = sum(self.recent) / max(len(self.recent), 1)
        self.points.append((self.step, train, self.held_out_loss()))
        self.recent.clear()

    def held_out_loss(self) -> float:
        """Over sequences side by side, or spread over the text if there are very many."""
        self.model.eval()
        context = self.args.context
        whole = (len(self.text.held_out) - 1) // context
        count = min(whole, MEASURED)
        starts = flambeau.tensor([i * whole // count * context for i in range(count)])
        with flambeau.no_grad():
            losses = [
                self.model.loss(*sequences(self.text.held_out, part, context)).item() * len(part)
                for part in starts.split(self.args.batch)
            ]
        return sum(losses) / count

    def run(self) -> None:
        """Trains until the last step or Ctrl-C; saves at every measurement and at the end."""
        self.args.out.mkdir(parents=True, exist_ok=True)
        begin, first = time.perf_counter(), self.step
        while self.step < self.args.steps and not self.stopped:
            loss = self.train_step()
            rate = (self.step - first) * self.args.batch * self.args.context / (time.perf_counter() - begin)
            if sys.stderr.isatty():
                told = f"\r{self.step}/{self.args.steps} steps, loss {loss:.3f}, {rate:.0f} tokens/s "
                print(told, end="", file=sys.stderr, flush=True)
            if self.step % self.args.every == 0 or self.step == self.args.steps:
                self.measure()
                step, train, held_out = self.points[-1]
                print(f"\rstep {step:5}  training loss {train:.4f}  held out {held_out:.4f}  {rate:.0f} tokens/s")
                self.save()
        if self.stopped:
            self.save()

    def stop(self, *signal_and_frame: object) -> None:
        """Ctrl-C: the step that is being done is the last. A second one stops at once."""
        self.stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def save(self) -> None:
        state = self.optimizer.state_dict()
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, parts in state["state"].items():
            tensors.update({f"optimizer.{number}.{name}": tensor for name, tensor in parts.items()})
        tensors["generator"] = flambeau.default_generator.get_state()
        progress = {"step": self.step, "points": self.points, "recent": self.recent, "groups": state["param_groups"]}
        settings = {name: getattr(self.args, name) for name in SETTINGS}
        notes = {"settings": json.dumps(settings), "text": self.text.fingerprint, "progress": json.dumps(progress)}
        save(tensors, self.checkpoint, notes)
        rows = "".join(f"{step},{train},{held_out}\n" for step, train, held_out in self.points)
        (self.args.out / "loss.csv").write_text("step,train,held_out\n" + rows)

    def restore(self) -> None:
        try:
            tensors, notes = load_with_notes(self.checkpoint)
            settings, progress = json.loads(notes["settings"]), json.loads(notes["progress"])
        except (OSError, ValueError, KeyError) as error:
            raise Wrong(f"{self.checkpoint}: cannot go on from it: {error}") from error
        for name in SETTINGS:
            if settings.get(name) != getattr(self.args, name):
                option = f"--{name} {settings.get(name)}, which cannot go on with {getattr(self.args, name)}"
                raise Wrong(f"{self.checkpoint}: made with {option}")
        if notes.get("text") != self.text.fingerprint:
            raise Wrong(f"{self.checkpoint}: made from another text than {self.args.text}")
        prefix = "model."
        self.model.load_state_dict({name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)})
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, number, part = name.split(".")
                state.setdefault(int(number), {})[part] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": progress["groups"]})
        self.step, self.recent = progress["step"], progress["recent"]
        self.points = [tuple(point) for point in progress["points"]]
        flambeau.default_generator.set_state(tensors["generator"])

    def sample(self) -> str:
        """Text that goes on from the prompt, each character drawn by its likelihood."""
        self.model.eval()
        generator = flambeau.Generator()
        generator.manual_seed(self.args.seed)
        numbers = self.text.numbers(self.args.prompt) or self.text.train[:1].tolist()
        with flambeau.no_grad():
            for _ in range(self.args.sample):
                logits = self.model(flambeau.tensor([numbers[-self.args.context :]]))[0, -1]
                numbers.append(int(flambeau.multinomial(logits.softmax(0), 1, generator=generator).item()))
        return self.text.characters(numbers)


def draw(path: Path, points: list[tuple[int, float, float]], bigram: float) -> None:
    try:
        import matplotlib
    except ImportError:
        raise Wrong("--plot needs matplotlib, which is not installed: pip install matplotlib") from None
    matplotlib.use("svg")
    from matplotlib import pyplot

    steps, train, held_out = zip(*points)
    pyplot.plot(steps, train, label="training")
    pyplot.plot(steps, held_out, label="held out")
    pyplot.axhline(bigram, color="black", label="bigram model")
    pyplot.xlabel("step")
    pyplot.ylabel("loss, nats a character")
    pyplot.legend()
    pyplot.savefig(path, format="svg")


def main(args: argparse.Namespace) -> None:
    if args.threads > 0:
        flambeau.set_num_threads(args.threads)
    text = Text(args.text, args.context)
    counts = f"{len(text.train)} characters to train on, {len(text.held_out)} held out, {len(text.alphabet)} different"
    print(f"text: {counts}")
    text.numbers(args.prompt)
    training, bigram = Training(args, text), text.bigram_loss()
    print(f"model: {sum(p.numel() for p in training.model.parameters())} parameters")
    print(f"bigram model: held-out loss {bigram:.4f} nats a character")
    begin, first = time.perf_counter(), training.step
    signal.signal(signal.SIGINT, training.stop)
    training.run()
    print(f"{training.step - first} steps in {time.perf_counter() - begin:.1f} s")
    if training.step < args.steps:
        print(f"saved at step {training.step}; go on with --resume")
        return
    print(f"---\n{training.sample()}\n---")
    print(f"held-out loss: {training.points[-1][2]:.4f} nats a character; bigram model: {bigram:.4f}")
    if args.plot:
        draw(args.out / "loss.svg", training.points, bigram)
    print(f"checkpoint and loss curve: {args.out}")


if __name__ == "__main__":
    try:
        main(arguments())
    except Wrong as error:
        sys.exit(f"error: {error}")
