"""Calls every operator of PyTorch's operator database that Flambeau has in both, from Python, and says where they disagree.

    python tests/parity/python/run.py [--filter REGEX] [--dtypes float32,int64] [--samples 40] [--min-cases 200] [--out DIR] [--again]

The Python that runs this needs torch, expecttest, pytest and flambeau. Each entry of the database runs in a child of its own,
that a crash or a hang ends alone, and leaves DIR/<entry>.json; entries that have one are not run again unless `--again` says
so. Compared are results and refusals of the function, the method, the in-place form, the Python operator and `out=`, in
every type both have, with strides as the database gives them and with gaps; gradients of first and second order; and the
database's calls that must fail. An entry whose samples make fewer than `--min-cases` cases gets more, derived from them
(`derived.py`). A disagreement that is meant is a row of the last table of `docs/differences.md`.
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import signal
import sys
import time
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

import cases
import derived
import names
from convert import DTYPES, Outside, tensors

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECONDS = 300
SHOWN = 3


class Report:
    """What one entry gave: how many cases, and its disagreements, a few of each kind in words."""

    def __init__(self):
        self.count = collections.Counter()
        self.found = {}
        self.cut = False

    def note(self, variant, dtype, check, case, *arguments):
        """Runs one check and keeps what it finds."""
        try:
            found = check(case, *arguments)
        except Outside:
            self.count["outside"] += 1
            return
        self.count["cases"] += 1
        for kind, words in found:
            self.count["disagreements"] += 1
            key = f"{variant} {kind}"
            entry = self.found.setdefault(key, {"variant": variant, "kind": kind, "count": 0, "dtypes": [], "shown": []})
            entry["count"] += 1
            if dtype not in entry["dtypes"]:
                entry["dtypes"].append(dtype)
            if len(entry["shown"]) < SHOWN and all(shown["words"] != words for shown in entry["shown"]):
                entry["shown"].append({"dtype": dtype, "words": words, "call": case.words()})


def spread(samples, limit):
    """At most so many, from all over."""
    samples = list(samples)
    step = max(1, len(samples) / limit)
    return [samples[int(i * step)] for i in range(int(len(samples) / step))]


def samples_of(entry, dtype, options, requires_grad=False, seed=0):
    torch.manual_seed(SEED + seed)
    make = entry.reference_inputs if options.reference else entry.sample_inputs
    try:
        return spread(make("cpu", dtype, requires_grad=requires_grad), options.samples)
    except Exception as error:
        print(f"  {entry.full_name}: no samples of {dtype}: {str(error)[:80]}", file=sys.stderr)
        return []


def is_dense(sample):
    """Whether the sample can have gaps in memory."""
    return all(t.layout == torch.strided for t in tensors((sample.input, list(sample.args), sample.kwargs)))


def forwards(entry, dtype, report, options):
    found, missing = names.variants(entry)
    has_values = not names.is_random(entry)
    word = str(dtype)[6:]
    samples = samples_of(entry, dtype, options)
    with_gaps = [s.noncontiguous() for s in samples[::3] if is_dense(s)] if dtype in (torch.float32, torch.int64, torch.bool) else []
    for variant, theirs, ours in found:
        some = samples + with_gaps if variant == "function" else samples[::3]
        for sample in some:
            report.note(variant, word, cases.forward, cases.Case(sample), theirs, ours, has_values)
    if dtype == torch.float32 and not names.is_wrapper(entry.op):
        for sample in spread(samples, 6):
            named = names.by_name(entry, sample)
            if named is not None:
                theirs, ours = (named[1](function) for function in found[0][1:])
                report.note("named", word, cases.forward, cases.Case(named[0]), theirs, ours, has_values)
    if entry.supports_out and dtype in (torch.float32, torch.int64, torch.bool) and not names.is_wrapper(entry.op):
        for sample in spread(samples, 4):
            report.note("out", word, cases.out, cases.Case(sample), *found[0][1:], has_values)
    return missing


def backwards(entry, dtype, report, options):
    if not entry.supports_autograd or dtype not in entry.supported_backward_dtypes("cpu") or names.is_random(entry):
        return
    found, _ = names.variants(entry)
    twice = entry.supports_gradgrad and dtype == torch.float64
    samples = samples_of(entry, dtype, options, True)
    for sample in samples + ([s.noncontiguous() for s in samples[::5] if is_dense(s)] if dtype == torch.float64 else []):
        report.note("backward", str(dtype)[6:], cases.backward, cases.Case(sample), *found[0][1:], twice)


def further(entry, types, report, options):
    """Derived calls, until there are as many cases as requested: forwards, and backwards where that is defined."""
    found, _ = names.variants(entry)
    has_values = not names.is_random(entry)
    for number, dtype in enumerate(types):
        left = options.min_cases - report.count["cases"]
        differentiable = has_values and entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
        backward = differentiable and dtype in (torch.float32, torch.float64)
        share = -(-left // (len(types) - number))
        samples = lambda seed: filter(is_dense, samples_of(entry, dtype, options, backward, seed))
        for sample in derived.more(samples, found[0][1], entry.name, share // 2 + 1 if backward else share) if left > 0 else ():
            report.note("function", str(dtype)[6:], cases.forward, cases.Case(sample), *found[0][1:], has_values)
            report.count["derived"] += 1
            if backward:
                report.note("backward", str(dtype)[6:], cases.backward, cases.Case(sample), *found[0][1:], False)
                report.count["derived"] += 1


def errors(entry, report):
    """The database's calls that must fail."""
    if entry.error_inputs_func is None:
        return
    found, _ = names.variants(entry)
    for given in entry.error_inputs("cpu"):
        report.note("error", "", cases.forward, cases.Case(given.sample_input), *found[0][1:])


def check(entry, options):
    """All of one entry."""
    report, missing = Report(), set()
    types = [dtype for dtype in DTYPES if dtype in entry.supported_dtypes("cpu")]
    for dtype in types:
        if options.dtypes and str(dtype)[6:] not in options.dtypes:
            continue
        missing.update(forwards(entry, dtype, report, options))
        if dtype in (torch.float32, torch.float64):
            backwards(entry, dtype, report, options)
    chosen = [dtype for dtype in types if not options.dtypes or str(dtype)[6:] in options.dtypes]
    # Those with gradients last: what the others could not make falls to them.
    further(entry, sorted(chosen, key=lambda dtype: dtype.is_floating_point), report, options)
    errors(entry, report)
    return {"name": entry.full_name, "types": len(types), "count": report.count, "missing": sorted(missing), "found": list(report.found.values())}


def in_child(entry, path, options):
    """Runs an entry in a child; what ends the child is a finding."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(SECONDS)
            warnings.simplefilter("ignore")
            path.write_text(json.dumps(check(entry, options)))
            status = 0
        except BaseException:
            import traceback
            path.with_suffix(".error").write_text(traceback.format_exc())
            status = 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        error = path.with_suffix(".error")
        words = error.read_text() if error.exists() else f"ended by signal {status & 127}"
        error.unlink(missing_ok=True)
        found = {"variant": "run", "kind": "crash", "count": 1, "dtypes": [], "shown": [{"dtype": "", "words": words, "call": ""}]}
        path.write_text(json.dumps({"name": entry.full_name, "types": 1, "count": {"disagreements": 1}, "missing": [], "found": [found]}))


def meant():
    """Rows of the table of differences that are meant: entry, kind, words, reason."""
    text = (ROOT / "docs" / "differences.md").read_text()
    _, _, part = text.partition("## In Python")
    cells = lambda line: [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    rows = [cells(line) for line in part.splitlines() if line.startswith("|")]
    return [row for row in rows[2:] if len(row) == 4]


def is_meant(name, found, rows):
    fits = lambda row: (any(fnmatch.fnmatch(name, part.strip()) for part in row[0].split(","))
                        and any(fnmatch.fnmatch(f"{found['variant']} {found['kind']}", part.strip()) for part in row[1].split(","))
                        and (not row[2] or all(re.search(row[2], shown["words"]) for shown in found["shown"])))
    return any(fits(row) for row in rows)


def summary(folder, entries, absent, options):
    """A table of the disagreements, and the counts."""
    rows, total, left, explained, case_counts = meant(), collections.Counter(), [], 0, []
    for entry in entries:
        path = folder / f"{entry.full_name}.json"
        if not path.exists():
            continue
        report = json.loads(path.read_text())
        total.update(report["count"])
        if report["types"]:
            case_counts.append((report["count"].get("cases", 0), report["name"]))
        for found in report["found"]:
            if is_meant(report["name"], found, rows):
                explained += found["count"]
            else:
                left.append((report["name"], found))
        if report["missing"]:
            print(f"{report['name']}: only in PyTorch: {', '.join(report['missing'])}")
    for name, found in left:
        print(f"{name:40} {found['variant']:10} {found['kind']:20} {found['count']:5}  {','.join(found['dtypes'])}")
        for shown in found["shown"][: options.shown]:
            print(f"    {shown['words'][:300]}\n        {shown['dtype']} {shown['call'][:240]}")
    print(f"\nof {len(op_db)} entries {len(entries)} are here and {len(absent)} are not:\n{', '.join(sorted({e.name for e in absent}))}\n")
    open_ = sum(found["count"] for _, found in left)
    few = [f"{name} {count}" for count, name in sorted(case_counts) if count < options.min_cases]
    print(f"fewest cases of the {len(case_counts)} entries that have a type of ours: {min(case_counts, default=(0, ''))[0]}" + (f"; fewer than {options.min_cases}: {', '.join(few)}" if few else ""))
    print(f"{len(entries)} entries, {total['cases']} cases, of which {total['derived']} derived ({total['outside']} more with what only PyTorch has), "
          f"{total['disagreements']} disagreements: {explained} meant, {open_} open in {len({name for name, _ in left})} entries")
    (folder / "summary.json").write_text(json.dumps({"left": left, "absent": sorted(e.full_name for e in absent), "count": total}))
    return open_


def bar(done, all_, width=20):
    """How far a run is."""
    full = width * done // all_
    return f"[{'#' * full}{'.' * (width - full)}] {done}/{all_}"


def main():
    global SEED
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="", help="a regular expression of entries")
    parser.add_argument("--dtypes", type=lambda text: text.split(","), help="types of elements")
    parser.add_argument("--samples", type=int, default=40, help="samples for an entry and a type")
    parser.add_argument("--min-cases", type=int, default=200, help="cases of an entry; what its samples lack is derived from them")
    parser.add_argument("--shown", type=int, default=1, help="examples of each disagreement")
    parser.add_argument("--reference", action="store_true", help="the database's reference inputs, which are more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "parity-python")
    parser.add_argument("--again", action="store_true", help="runs entries that have run")
    parser.add_argument("--summary", action="store_true", help="runs nothing")
    options = parser.parse_args()
    SEED = options.seed
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    here = [entry for entry in op_db if names.is_ours(entry)]
    absent = [entry for entry in op_db if not names.is_ours(entry)]
    chosen = [entry for entry in here if re.search(options.filter, entry.full_name)]
    for number, entry in enumerate([] if options.summary else chosen):
        path = options.out / f"{entry.full_name}.json"
        if path.exists() and not options.again:
            continue
        start = time.time()
        in_child(entry, path, options)
        count = json.loads(path.read_text())["count"]
        print(f"{bar(number + 1, len(chosen))} {entry.full_name}: {count.get('cases', 0)} cases, "
              f"{count.get('disagreements', 0)} disagreements, {time.time() - start:.1f} s", flush=True)
    sys.exit(1 if summary(options.out, chosen, absent, options) else 0)


if __name__ == "__main__":
    main()
