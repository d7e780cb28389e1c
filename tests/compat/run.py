"""Runs the cases of public packages, each in a process of its own, and compares them with PyTorch's answers.

    python tests/compat/run.py [--quick | --trainings] [--list] [--only NAME] [--again] [--answers] [--results FILE]

`cargo xtask compat` prepares the environment and calls this. `--quick` runs some cases of the packages that `requirements.txt` marks as
quick, `--trainings` the files of `trainings/` instead of those of `packages/`. `--answers`, with an interpreter that has PyTorch, writes
the answers.
Results are stored as they come, and a case whose files have not changed since is not run again.
"""

import argparse
import ast
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
# How long a case may take.
SECONDS = 900
TOLERANCE = 1e-6


class Package:
    """The cases of a package: functions `case_NAME`, and the constants REASONS, TOLERANCE and QUICK of the file."""

    def __init__(self, path):
        self.name, self.path = path.stem, path
        self.answers_path = path.parent / "answers" / f"{path.stem}.json"
        tree = ast.parse(path.read_text())
        self.cases = [node.name[5:] for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("case_")]
        constants = {
            node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        self.reasons = ast.literal_eval(constants["REASONS"]) if "REASONS" in constants else {}
        self.tolerance = ast.literal_eval(constants["TOLERANCE"]) if "TOLERANCE" in constants else TOLERANCE
        self.quick = ast.literal_eval(constants["QUICK"]) if "QUICK" in constants else self.cases[:1]

    def answers(self):
        """PyTorch's answers by case."""
        return json.loads(self.answers_path.read_text()) if self.answers_path.exists() else {}


def differences(expected, found, tolerance, path=""):
    """Where two values of JSON differ by more than rounding."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if expected.keys() != found.keys():
            yield f"{path}: has {sorted(found)}, expected {sorted(expected)}"
            return
        for key, value in expected.items():
            yield from differences(value, found[key], tolerance, f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path}: {len(found)} items, expected {len(expected)}"
            return
        # Elements of a tensor are compared with its largest number.
        numbers = [abs(x) for x in expected if isinstance(x, float) and math.isfinite(x)]
        scale = max(numbers, default=0.0) if path.endswith("/numbers") else 0.0
        for index, pair in enumerate(zip(expected, found)):
            yield from differences(*pair, (tolerance, scale) if scale else tolerance, f"{path}/{index}")
    elif isinstance(expected, (int, float)) and isinstance(found, (int, float)) and not isinstance(expected, bool):
        relative, scale = tolerance if isinstance(tolerance, tuple) else (tolerance, 0.0)
        same = expected == found or (math.isnan(expected) and math.isnan(found))
        if not same and not math.isclose(expected, found, rel_tol=relative, abs_tol=max(relative * scale, 1e-9)):
            yield f"{path}: {found}, expected {expected}"
    elif expected != found:
        yield f"{path}: {found!r}, expected {expected!r}"


def execute(package, case, command):
    """Runs a case: its result, and the reason where there is none."""
    try:
        done = subprocess.run(
            [*command, str(HERE / "case.py"), str(package.path), case], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return None, f"took more than {SECONDS} s"
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        return None, lines[-1][:300] if lines else f"exit code {done.returncode}"
    return json.loads(done.stdout.strip().splitlines()[-1]), None


def judge(package, case, command):
    """None where the case agrees with PyTorch, else why it does not."""
    expected = package.answers().get(case)
    if expected is None:
        return "there is no answer of PyTorch's"
    found, failure = execute(package, case, command)
    if failure is not None:
        return failure
    return next(differences(expected, found, package.tolerance), None)


def stamp(package):
    """What the result of a package's cases depends on."""
    import flambeau

    digest = hashlib.sha256()
    root = pathlib.Path(flambeau.__file__).parent
    own = sorted(path for path in root.rglob("*.py"))
    for path in (HERE / "harness.py", HERE / "case.py", package.path, package.answers_path, *own):
        digest.update(path.read_bytes() if path.exists() else b"")
    for path in root.glob("*.so"):
        digest.update(str(path.stat().st_mtime_ns).encode())
    return digest.hexdigest()


class Results:
    """The results so far, in a file of one line each."""

    def __init__(self, path):
        self.path, self.known = path, {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                record = json.loads(line)
                self.known[record["package"], record["case"]] = record

    def of(self, package, case, mark):
        """A result that still holds."""
        record = self.known.get((package.name, case))
        return record if record is not None and record["stamp"] == mark else None

    def add(self, record):
        """Stores a result."""
        self.known[record["package"], record["case"]] = record
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")


def quick_names():
    """The packages that are marked as quick, by the names of their files."""
    lines = (line.partition("#") for line in REQUIREMENTS.read_text().splitlines())
    return {requirement.partition("==")[0].replace("-", "_") for requirement, _, mark in lines if mark.strip() == "quick"}


def chosen(options):
    """The packages and cases to run."""
    found = [Package(path) for path in sorted((HERE / ("trainings" if options.trainings else "packages")).glob("*.py"))]
    if options.quick:
        quick = quick_names()
        found = [package for package in found if package.name in quick]
    names = {package.name for package in found}
    unknown = [name for name in options.only if name.replace("-", "_") not in names]
    if unknown:
        raise SystemExit(f"error: no package {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    only = {name.replace("-", "_") for name in options.only}
    for package in found:
        if not only or package.name in only:
            yield from ((package, case) for case in (package.quick if options.quick else package.cases))


def write_answers(options):
    """PyTorch's answers of the chosen cases."""
    failed = 0
    for package, case in chosen(options):
        if case in package.answers() and not options.again:
            continue
        found, failure = execute(package, case, [sys.executable])
        print(f"{package.name} {case}: {failure or 'answered'}", flush=True)
        if failure is not None:
            failed += 1
            continue
        answers = {**package.answers(), case: found}
        package.answers_path.parent.mkdir(exist_ok=True)
        package.answers_path.write_text(json.dumps(dict(sorted(answers.items())), indent=None, separators=(",", ":")) + "\n")
    return failed


def run(options):
    """Runs the chosen cases; the number of failures without a reason."""
    results = Results(options.results)
    todo = list(chosen(options))
    marks = {package.name: stamp(package) for package, _ in todo}
    started = time.monotonic()

    def one(item):
        package, case = item
        record = None if options.again else results.of(package, case, marks[package.name])
        if record is not None:
            return package, record
        begun = time.monotonic()
        why = judge(package, case, [sys.executable, "-m", "flambeau.torch"])
        seconds = round(time.monotonic() - begun, 1)
        return package, {"package": package.name, "case": case, "stamp": marks[package.name], "why": why, "seconds": seconds}

    records = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, (package, record) in enumerate(pool.map(one, todo), 1):
            if results.of(package, record["case"], record["stamp"]) is None or options.again:
                results.add(record)
            records.append((package, record))
            state = "agrees" if record["why"] is None else record["why"]
            print(f"[{number}/{len(todo)}] {package.name} {record['case']} ({record['seconds']} s): {state}", flush=True)
    print(f"{len(todo)} cases in {time.monotonic() - started:.0f} s\n")
    return report(records)


def report(records):
    """Prints the table; the number of failures without a reason and of reasons without a failure."""
    rows, wrong, agreed = {}, 0, 0
    for package, record in records:
        row = rows.setdefault(package.name, [0, 0, []])
        reason, why = package.reasons.get(record["case"]), record["why"]
        row[0] += 1
        row[1] += why is None
        agreed += why is None
        if why is not None:
            row[2].append(f"{record['case']}: {reason or why}")
            wrong += reason is None
        elif reason is not None:
            row[2].append(f"{record['case']} agrees, so that its reason has to go: {reason}")
            wrong += 1
    print("| package | cases | agreed | reasons |\n|---|---|---|---|")
    for name, (cases, right, reasons) in rows.items():
        print(f"| {name} | {cases} | {right} | {'; '.join(reasons)} |")
    print(f"\n{len(rows)} packages, {len(records)} cases, {agreed} agree, {wrong} unexplained")
    return wrong


def arguments():
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some cases of the packages that are marked as quick")
    parser.add_argument("--trainings", action="store_true", help="trainings with several packages instead of cases of each")
    parser.add_argument("--list", action="store_true", help="only lists packages and cases")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this package; may be repeated")
    parser.add_argument("--again", action="store_true", help="runs cases again whose result is known")
    parser.add_argument("--answers", action="store_true", help="writes PyTorch's answers")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="processes at a time")
    parser.add_argument("--results", type=pathlib.Path, help="where results are stored")
    return parser.parse_args()


def main():
    options = arguments()
    if options.list:
        for package, case in chosen(options):
            print(package.name, case, package.reasons.get(case, ""))
        return 0
    return 1 if (write_answers(options) if options.answers else run(options)) else 0


if __name__ == "__main__":
    sys.exit(main())
