"""The examples do what they say: a stopped run goes on to the same bits, digits are told apart, ranks learn the same."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gpt(tmp_path):
    """The program, with a small text and a tiny model that drops out."""
    module = example("char_gpt")
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{i} times {i} makes {i * i}.\n" for i in range(60)))
    sizes = "--batch 2 --context 8 --layers 1 --width 8 --heads 2 --dropout 0.2 --every 4 --sample 20".split()

    def line(out, *more):
        return module.arguments([*sizes, "--text", str(text), "--out", str(tmp_path / out), *more])

    def train(out, *more, stop_at=None):
        args = line(out, *more)
        training = module.Training(args, module.Text(args.text, args.context))
        if stop_at is not None:
            step = training.train_step

            def and_stop():
                loss = step()
                training.stopped = training.step == stop_at
                return loss

            training.train_step = and_stop
        training.run()
        return training

    module.line, module.train = line, train
    return module


@pytest.mark.parametrize("stop_at", [3, 4, 7])
def test_a_stopped_run_goes_on_to_the_same_bits(gpt, stop_at, tmp_path):
    whole = gpt.train("whole", "--steps", "10")
    gpt.train("parts", "--steps", "10", stop_at=stop_at)
    parts = gpt.train("parts", "--steps", "10", "--resume")
    assert parts.points == whole.points and len(whole.points) == 3
    assert whole.checkpoint.read_bytes() == parts.checkpoint.read_bytes()
    assert whole.sample() == parts.sample() and len(whole.sample()) == 21
    assert (tmp_path / "whole/loss.csv").read_text() == (tmp_path / "parts/loss.csv").read_text()


def test_what_cannot_go_on(gpt, tmp_path):
    gpt.train("out", "--steps", "4")
    for more, message in ((("--lr", "0.1"), "made with --lr 0.003"), (("--out", str(tmp_path / "none")), "cannot go on")):
        with pytest.raises(gpt.Wrong, match=message):
            gpt.train("out", "--steps", "8", "--resume", *more)
    (tmp_path / "text.txt").write_text("other " * 200)
    with pytest.raises(gpt.Wrong, match="made from another text"):
        gpt.train("out", "--steps", "8", "--resume")
    checkpoint = tmp_path / "out/checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    with pytest.raises(gpt.Wrong, match="not a whole safetensors file"):
        gpt.train("out", "--steps", "8", "--resume")


def test_it_learns_and_cannot_see_ahead(gpt, capsys):
    training = gpt.train("out", "--steps", "150", "--dropout", "0", "--lr", "0.02", "--context", "16")
    assert training.points[-1][2] < training.points[0][2] - 0.5
    text = training.text.train[:12].reshape(1, 12)
    changed = text.clone()
    changed[0, 8:] = 0
    first, second = training.model.eval()(text), training.model(changed)
    assert first[0, :8].tolist() == second[0, :8].tolist() and first[0, 8:].tolist() != second[0, 8:].tolist()


def test_what_the_text_cannot_be(gpt, tmp_path):
    (tmp_path / "text.txt").write_text("short")
    with pytest.raises(gpt.Wrong, match="expected more than 8 characters"):
        gpt.train("out")
    (tmp_path / "text.txt").write_bytes(b"\xff")
    with pytest.raises(gpt.Wrong, match="text.txt"):
        gpt.train("out")


def test_bigram_loss_is_counted(gpt, tmp_path):
    import math
    from collections import Counter

    args = gpt.line("out")
    text = gpt.Text(args.text, args.context)
    train, held_out = text.train.tolist(), text.held_out.tolist()
    pairs, firsts, letters = Counter(zip(train, train[1:])), Counter(train[:-1]), len(text.alphabet)
    losses = [-math.log((pairs[p] + 1) / (firsts[p[0]] + letters)) for p in zip(held_out, held_out[1:])]
    assert text.bigram_loss() == pytest.approx(sum(losses) / len(losses), rel=1e-12)


def test_digits(monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, which is not installed")
    module = example("digits")
    # A network that is smaller than the one that reaches 97 %, since tests run without optimisation.
    monkeypatch.setattr(sys, "argv", ["digits.py", "--channels", "4", "--epochs", "4", "--lr", "0.02"])
    module.main()
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert float(last.split()[2].rstrip("%")) >= 90.0


def test_memory_is_shared_with_numpy(capsys):
    pytest.importorskip("numpy", reason="the arrays are NumPy's, which is not installed")
    example("interchange").with_numpy()
    lines = [line[58:].strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["100.0", "-1.0", "((3, 2), (4, 12))", "True", "109.0", "5.0", "RuntimeError", "[1. 1. 1.]"]


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        example("digits").digits()


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("gcn", "--nodes 400 --degree 6 --features 8 --steps 20"),
        ("recommender", "--users 300 --items 200 --batch 64 --steps 400 --factors 4"),
    ],
)
def test_sparse_programs_learn(name, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *arguments.split()])
    monkeypatch.syspath_prepend(EXAMPLES)
    example(name).main()
    lines = capsys.readouterr().out.splitlines()
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in lines if "loss " in line]
    assert losses[-1] < losses[0] and " ms a step, with at most " in lines[-1] and " MiB in tensors" in lines[-1]


def test_batches_give_what_loops_give():
    batches = example("batches")
    loop, batch, difference = batches.sample_gradients(3, 1)
    assert loop > 0 and batch > 0 and difference < 1e-5
    methods = batches.jacobians(5, 1)
    assert len(methods) == 3 and all(difference < 1e-5 for _, difference in methods.values())


def test_modes_and_wrappers_have_a_cost():
    found = example("extension_costs").costs(20)
    assert len(found) == 6 and 0 < found["fl.add(x, x)"] < found["inside a mode"] < found["of a wrapper inside a mode"]


def run(name, *arguments):
    """What an example prints, as a program."""
    line = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_two_and_four_ranks_learn_the_same(tmp_path):
    # The last step has 15 pictures, which four micro-batches cannot share equally.
    common = "--drawn 47 --batch 16 --epochs 2 --threads 1".split()

    def learnt(ranks, micro_batches):
        file = tmp_path / f"{ranks}_{micro_batches}"
        run("mnist_cnn", *common, "--ranks", str(ranks), "--micro-batches", str(micro_batches), "--save", str(file))
        return file.read_bytes()

    one = learnt(1, 4)
    assert one == learnt(2, 4) == learnt(4, 4) and len(one) > 1000
    # Other parts of a step are another sum: the comparison can fail.
    assert one != learnt(1, 1)


def test_mnist_cnn_learns_and_reads_files(tmp_path, capsys, monkeypatch):
    flambeau = pytest.importorskip("flambeau")
    module = example("mnist_cnn")
    pixels = flambeau.zeros(16, 8, 8, dtype=flambeau.uint8)
    pixels[::2, :4], pixels[1::2, 4:] = 255, 255
    header = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (16, 8, 8))
    (tmp_path / "images").write_bytes(header + bytes(pixels.flatten().tolist()))
    (tmp_path / "labels").write_bytes(b"\0\0\x08\x01" + (16).to_bytes(4, "big") + bytes([0, 1] * 8))
    images, labels = str(tmp_path / "images"), str(tmp_path / "labels")
    files = ["--images", images, "--labels", labels, "--test-images", images, "--test-labels", labels]
    monkeypatch.setattr(sys, "argv", ["mnist_cnn", *files, "--epochs", "20", "--lr", "0.01", "--batch", "4"])
    module.main()
    assert capsys.readouterr().out.strip().endswith("16 of 16 held-out digits recognised: 100.00%")
    (tmp_path / "labels").write_bytes(b"\0\0\x08\x01" + (16).to_bytes(4, "big") + bytes([0, 1] * 7))
    with pytest.raises(SystemExit, match="labels: expected a file of the format IDX"):
        module.main()
    with pytest.raises(SystemExit):
        module.arguments(["--ranks", "2", "--micro-batches", "6"])


def test_hogwild_beside_data_parallel():
    # With a higher rate one of some runs of Hogwild diverges.
    line = "--drawn 1280 --epochs 4 --lr 0.05 --ranks 2"
    steps, hogwild, parallel = run("hogwild", *line.split()).splitlines()
    assert steps.startswith("80 steps of 32 pictures in each of 2 processes")
    for line, name in ((hogwild, "Hogwild"), (parallel, "DistributedDataParallel")):
        # A network that has learnt nothing recognises a tenth.
        right = float(line.split()[-2].rstrip("%"))
        assert line.startswith(name) and right > 20, line
