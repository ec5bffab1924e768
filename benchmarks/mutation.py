"""Mutation testing: small faults are put into a package, one at a time, and the share its tests notice is counted.

    python benchmarks/mutation.py src/sigmax/bounds src/sigmax/radius --sample 60 --seed 0 \
        --tests tests/bounds tests/radius

Each folder is a group of its own, and all single files together are one more; `--sample` mutants are drawn from
every group, evenly over all that are possible there. Annotations, decorators, formatted strings and `raise`
statements are left alone. The package is copied to a temporary folder, and the tests run against that copy.

First all tests run once, with a probe before every statement of the mutated files. A mutant inside a function is
then shown only to the tests that reached its statement (in their own process: what they start is not seen), and one
that no test reached survives. A mutant of what runs on import is shown to all tests. The processes of the tests are
forked from this one, which has imported what takes long. Hypothesis draws the same examples every time. A mutant is
killed by the first test that fails, and timed out where a test takes over FACTOR times its processor time; both count
as noticed. A survivor may be equivalent to the original: all are listed.
The mutants of a sample are tried in random order: a group that `--minutes` cuts short is only a smaller sample.
"""

import argparse
import ast
import builtins
import contextlib
import copy
import importlib
import importlib.util
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

FACTOR = 5  # a mutant may take this many times what the original took
GRACE = 20.0  # seconds on top, for fixtures that another test had paid for
PLAN = "MUTATION_PLAN"  # the environment variable that tells the tests' process what to do
PRELOADED = ("numpy", "scipy.stats", "pandas", "torch", "hypothesis")
PLUGIN = "mutation_plugin"  # the name this file has there
# Looked up at every call: a conftest.py may import the package before the recorder stands ready.
PROBE = "import builtins; __probe__ = lambda name: getattr(builtins, '__probe__', id)(name)"
Log = Callable[[str], None]
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}  # fmt: skip
PAIRS = [("max", "min"), ("maximum", "minimum"), ("fmax", "fmin"), ("ceil", "floor"), ("any", "all")]
NAMES = {old: new for pair in PAIRS for old, new in (pair, pair[::-1])}


# --- What can be changed ---


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the `variant`-th of the node that `ast.walk` meets as number `place`."""

    path: Path  # within the folder that holds the package
    place: int
    variant: int
    at: str  # line:column, both counted from 1
    probe: str | None  # the statement the change is in; None: it runs on import
    change: str


def swapped(node: ast.AST) -> ast.AST | None:
    """The operator that takes this one's place."""
    other = SWAPS.get(type(node))
    return other() if other else None


def with_field(node: ast.AST, name: str, value: object) -> ast.AST:
    """A copy of the node with another value of one field."""
    changed = copy.copy(node)
    setattr(changed, name, value)
    return changed


def of_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    """Each of a chain's comparisons swapped: at the boundary, or for its opposite."""
    for i, old in enumerate(node.ops):
        if new := swapped(old):
            yield with_field(node, "ops", [*node.ops[:i], new, *node.ops[i + 1 :]])


def of_operation(node: ast.BinOp | ast.BoolOp | ast.AugAssign) -> Iterator[ast.AST]:
    """Arithmetic and logic swapped, but not where strings are joined."""
    joins = isinstance(node.op, ast.Add) and any(is_text(child) for child in ast.iter_child_nodes(node))
    if not joins and (new := swapped(node.op)):
        yield with_field(node, "op", new)


def is_text(node: ast.AST) -> bool:
    """Whether the node is a string as it stands."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    """A flag turned, a number moved by one or doubled."""
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        for value in dict.fromkeys((node.value + 1, node.value - 1, node.value * 2)):
            if value != node.value:
                yield ast.Constant(value)


def of_call(node: ast.Call) -> Iterator[ast.AST]:
    """Another function of the pair called, or one named argument left to its default."""
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield with_field(node, "func", ast.Name(NAMES[node.func.id]))
    if isinstance(node.func, ast.Attribute) and node.func.attr in NAMES:
        yield with_field(node, "func", with_field(node.func, "attr", NAMES[node.func.attr]))
    for i, keyword in enumerate(node.keywords):
        if keyword.arg:
            yield with_field(node, "keywords", node.keywords[:i] + node.keywords[i + 1 :])


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """All that may stand in the node's place."""
    match node:
        case ast.Compare():
            yield from of_comparison(node)
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            yield from of_operation(node)
        case ast.Constant():
            yield from of_constant(node)
        case ast.Call():
            yield from of_call(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Return(value=ast.expr() as value):
            for other in (None, 0.0):
                if not (isinstance(value, ast.Constant) and value.value == other):
                    yield with_field(node, "value", ast.Constant(other))


def is_typing(node: ast.AST) -> bool:
    """Whether the node is a block for type checkers alone."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a node that may be changed."""
    if isinstance(node, ast.Raise | ast.JoinedStr) or is_typing(node):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "type_params"):
            values = value if isinstance(value, list) else [value]
            yield from (child for child in values if isinstance(child, ast.AST))


def places(node: ast.AST, line: int | None = None) -> Iterator[tuple[ast.AST, int | None]]:
    """Every node that may be changed, with the line of its innermost statement within a function."""
    yield node, line
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in inner(node):
        within = isinstance(child, ast.stmt) and (function or line is not None)
        yield from places(child, getattr(child, "lineno", None) if within else line)


def shortened(text: str, length: int = 70) -> str:
    """One line of at most so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def mutants(root: Path, path: Path) -> list[Mutant]:
    """Every mutant of a file."""
    source = (root / path).read_text()
    tree, lines, found = ast.parse(source), source.splitlines(), []
    number = {id(node): place for place, node in enumerate(ast.walk(tree))}
    for node, line in places(tree):
        for variant, new in enumerate(variants(node)):
            at, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            change = f"{shortened(ast.unparse(node))}  ->  {shortened(ast.unparse(new))}"
            if isinstance(node, ast.Constant | ast.UnaryOp):
                change += f"  in  {shortened(lines[at - 1])}"
            probe = None if line is None else f"{path}:{line}"
            found.append(Mutant(path, number[id(node)], variant, f"{at}:{column + 1}", probe, change))
    return found


class Replaced(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """The node itself, unless it is the one to be replaced."""
        return self.new if node is self.old else self.generic_visit(node)


def mutated(source: str, mutant: Mutant) -> str:
    """The file with the change."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[mutant.place]
    new = list(variants(node))[mutant.variant]
    return ast.unparse(ast.fix_missing_locations(Replaced(node, new).visit(tree)))


def probed(source: str, path: Path) -> str:
    """The file with a probe before every statement within a function."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in {id(node): node for function in functions for node in ast.walk(function)}.values():
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, name, None), list):
                setattr(node, name, with_probes(block, path))
    head = next(i for i, node in enumerate([*tree.body, None]) if not is_head(node))
    tree.body[head:head] = ast.parse(PROBE).body
    return ast.unparse(ast.fix_missing_locations(tree))


def is_head(node: ast.stmt | None) -> bool:
    """Whether nothing may come before this statement of a file: its docstring, or an import of the future."""
    return is_docstring(node) or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def is_docstring(node: ast.stmt | None) -> bool:
    """Whether a statement is only a string."""
    return isinstance(node, ast.Expr) and is_text(node.value)


def with_probes(block: list[ast.stmt], path: Path) -> list[ast.stmt]:
    """The statements, each after the probe that tells it was reached."""
    found: list[ast.stmt] = []
    for statement in block:
        if not is_docstring(statement):
            found += ast.parse(f"__probe__({f'{path}:{statement.lineno}'!r})").body
        found.append(statement)
    return found


# --- Within the process of the tests: this file is a plugin of pytest there ---


class Recorder:
    """Writes down which statements each test reached, and the processor time it took."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.hits: set[str] = set()
        self.shared: dict[int, set[str]] = {}  # what the set-up of a fixture for several tests reached
        self.tests: dict[str, dict[str, Any]] = {}
        builtins.__dict__["__probe__"] = self.hit

    def hit(self, name: str) -> None:
        """Called by a probe."""
        self.hits.add(name)

    def forget(self, item: pytest.Item) -> None:
        """Empty every cache, so that a test reaches by itself what it needs."""
        names = (self.plan["package"], Path(item.nodeid).parts[0])
        for module in [module for name, module in sys.modules.items() if name.split(".")[0] in names]:
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Keep apart what belongs to every test that asks for the fixture."""
        if fixturedef.scope == "function":
            return (yield)
        before, self.hits = self.hits, set()
        try:
            return (yield)
        finally:
            self.shared.setdefault(id(fixturedef), set()).update(self.hits)
            self.hits |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record one test."""
        self.forget(item)
        self.hits, begun = set(), time.process_time()
        try:
            return (yield)
        finally:
            fixtures = getattr(item, "_fixtureinfo", None)
            for same in fixtures.name2fixturedefs.values() if fixtures else ():
                self.hits.update(*(self.shared.get(id(one), ()) for one in same))
            self.tests[item.nodeid] = {"seconds": time.process_time() - begun, "hits": sorted(self.hits)}

    def pytest_sessionfinish(self) -> None:
        """Write down what was found."""
        Path(self.plan["record"]).write_text(json.dumps(self.tests))


class Chooser:
    """Runs the tests chosen for a mutant, in the order given, and ends the process where one takes too long."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.limits: dict[str, float] = plan["limits"]
        self.known = set(plan["known"])

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, and those that only exist with the mutant."""
        order = {name: i for i, name in enumerate(self.limits)}
        kept = [item for item in items if item.nodeid in order or item.nodeid not in self.known]
        left = {item.nodeid for item in items} - {item.nodeid for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = sorted(kept, key=lambda item: order.get(item.nodeid, len(order)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """The signal of a timer that counts processor time ends the process unless the test ends first."""
        signal.setitimer(signal.ITIMER_PROF, self.limits.get(item.nodeid, GRACE))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_configure(config: pytest.Config) -> None:
    """Do what the plan says, with the copy of the package and no other."""
    plan = json.loads(Path(os.environ[PLAN]).read_text())
    found = importlib.util.find_spec(plan["package"])
    if not (found and found.origin and Path(found.origin).is_relative_to(plan["root"])):
        pytest.exit(f"the tests import {plan['package']} from {found and found.origin}, not from its copy", 3)
    config.pluginmanager.register(Recorder(plan) if "record" in plan else Chooser(plan))


# --- Running ---


def preload() -> None:
    """Import what takes most of the time of a short test; the processes of the tests are forked from this one."""
    # Where CI is set, Hypothesis derives its examples from the test, has no deadline and keeps no failures.
    os.environ["CI"] = "true"
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def forked(
    own: dict[str, str], places: list[str], arguments: list[str], printed: Path, timeout: float | None
) -> tuple[int, str]:
    """The exit code of pytest in a process forked from this one, and what it prints; -N: ended by signal N."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        in_child(own, places, arguments, printed)
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), printed.read_text(errors="replace")
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError
        time.sleep(0.02)


def in_child(own: dict[str, str], places: list[str], arguments: list[str], printed: Path) -> NoReturn:
    """Run pytest with this environment, and end."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.environ.update(own)
        sys.path[:0] = places
        sys.dont_write_bytecode = True
        with printed.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = int(pytest.main(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


@dataclass
class Bench:
    """A copy of the package in a temporary folder, and what the tests reach in it."""

    source: Path  # the folder that holds the package
    package: str
    folder: Path
    tests: list[str]
    reached: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def root(self) -> Path:
        """The folder that holds the copy."""
        return self.folder / "src"

    def fill(self) -> None:
        """Make the copy, and put the plugin beside it."""
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(self.source / self.package, self.root / self.package, ignore=ignored)
        (self.folder / "plugin").mkdir()
        shutil.copy(__file__, self.folder / "plugin" / f"{PLUGIN}.py")

    def write(self, path: Path, text: str) -> None:
        """Put a file into the copy, and remove what was compiled from the one before."""
        (self.root / path).write_text(text)
        Path(importlib.util.cache_from_source(str(self.root / path))).unlink(missing_ok=True)

    def run(self, plan: dict[str, Any], arguments: list[str], timeout: float | None) -> tuple[int, str]:
        """The exit code of the tests under a plan, and what they print."""
        written = self.folder / "plan.json"
        written.write_text(json.dumps({"package": self.package, "root": str(self.root), **plan}))
        places = [str(self.root), str(self.folder / "plugin"), os.environ.get("PYTHONPATH", "")]
        own = {PLAN: str(written), "PYTHONPATH": os.pathsep.join(filter(None, places))}
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, "--basetemp", str(self.folder / "t")]
        return forked(own, places, [*options, *arguments], self.folder / "printed.txt", timeout)

    def explore(self, paths: set[Path]) -> None:
        """Run all tests once, with probes in these files."""
        for path in paths:
            self.write(path, probed((self.source / path).read_text(), path))
        record, begun = self.folder / "record.json", time.monotonic()
        code, printed = self.run({"record": str(record)}, self.tests, None)
        if code:
            sys.exit(f"the tests fail without a mutant:\n{printed}")
        self.reached, self.seconds = json.loads(record.read_text()), time.monotonic() - begun
        for path in paths:
            self.write(path, (self.source / path).read_text())

    def chosen(self, mutant: Mutant) -> list[str]:
        """The tests a mutant is shown to: by file, the quickest file first, and the quickest tests of it."""
        file = {name: name.split("::")[0] for name in self.reached}
        seconds = {name: test["seconds"] for name, test in self.reached.items()}
        far = {name: not self.reaches(name, f"{mutant.path}:") for name in self.reached}
        names = [n for n, test in self.reached.items() if mutant.probe is None or mutant.probe in test["hits"]]
        cost: Counter[tuple[bool, str]] = Counter()
        for name in names:
            cost[far[name], file[name]] += seconds[name]
        return sorted(names, key=lambda n: (far[n], cost[far[n], file[n]], file[n], seconds[n]))

    def reaches(self, name: str, start: str) -> bool:
        """Whether a test reached a statement whose name starts like this."""
        return any(hit.startswith(start) for hit in self.reached[name]["hits"])

    def verdict(self, mutant: Mutant) -> tuple[str, str]:
        """What the tests say to a mutant, and the test that says it."""
        names = self.chosen(mutant)
        if not names:
            return "unreached", ""
        limits = {name: FACTOR * self.reached[name]["seconds"] + GRACE for name in names}
        plan = {"limits": limits, "known": list(self.reached)}
        files = list(dict.fromkeys(name.split("::")[0] for name in names))
        original = (self.source / mutant.path).read_text()
        self.write(mutant.path, mutated(original, mutant))
        try:
            code, text = self.run(plan, files, 60 + FACTOR * self.seconds)
        except TimeoutError:
            return "timeout", ""
        finally:
            self.write(mutant.path, original)
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "survived", f"{len(names)} tests"
        return "timeout" if code == -signal.SIGPROF else "killed", witness(text)


def witness(printed: str) -> str:
    """The test that failed, by what pytest printed; the last line where none is named."""
    lines = printed.strip().splitlines() or [""]
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" - ")[0].split(" ", maxsplit=1)[1] if failed else shortened(lines[-1])


def holder(path: Path) -> Path:
    """The folder that holds the package a path belongs to."""
    folder = path if path.is_dir() else path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def groups(targets: list[Path]) -> dict[str, list[Path]]:
    """The files of every group: each folder is one, and all single files together."""
    found = {str(target): sorted(target.resolve().rglob("*.py")) for target in targets if target.is_dir()}
    single = sorted(target.resolve() for target in targets if not target.is_dir())
    return found | ({"files": single} if single else {})


def summary(counts: Counter[str], possible: int) -> str:
    """The score of a group, in words."""
    total = counts.total()
    noticed = counts["killed"] + counts["timeout"]
    words = ", ".join(f"{counts[name]} {name}" for name in ("killed", "timeout", "survived", "unreached"))
    return f"{100 * noticed / max(total, 1):.1f}% noticed ({words}; {total} of {possible} mutants)"


def run_all(bench: Bench, samples: dict[str, list[Mutant]], possible: dict[str, int], log: Log, end: float) -> None:
    """Try the mutants of the samples, none after the end, and tell the scores."""
    survivors: dict[str, list[str]] = {}
    scores = []
    for group, sample in samples.items():
        counts: Counter[str] = Counter()
        for i, mutant in enumerate(sample, 1):
            if (begun := time.monotonic()) > end:
                break
            verdict, by = bench.verdict(mutant)
            counts[verdict] += 1
            text = f"{mutant.path}:{mutant.at}  {mutant.change}"
            if verdict in ("survived", "unreached"):
                survivors.setdefault(group, []).append(f"{verdict:9}  {text}")
            log(f"{group} {i}/{len(sample)}  {verdict:9} {time.monotonic() - begun:6.1f} s  {text}  [{by}]")
        scores.append(f"{group}: {summary(counts, possible[group])}")
    for group, lines in survivors.items():
        log("\n".join([f"\nSurvivors of {group}", *sorted(lines)]))
    log("\n".join(["\nScores", *scores]))


def logger(path: Path | None) -> Log:
    """What prints a line at once, and appends it to a file."""

    def log(text: str) -> None:
        print(text, flush=True)
        if path:
            with path.open("a") as file:
                file.write(text + "\n")

    return log


def asked(arguments: list[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("targets", nargs="+", type=Path, help="folders and files of one package")
    parser.add_argument("--tests", nargs="+", required=True, help="folders and files of tests")
    parser.add_argument("--sample", type=int, default=60, help="mutants drawn from every group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no mutant is begun after so long")
    parser.add_argument("--log", type=Path, help="a file to append every result to")
    asked = parser.parse_args(arguments)
    if missing := [str(path) for path in [*asked.targets, *map(Path, asked.tests)] if not path.exists()]:
        parser.error(f"no such file or folder: {', '.join(missing)}")
    if len({holder(target.resolve()) for target in asked.targets}) > 1:
        parser.error("the targets belong to several packages; give those of one")
    return asked


def main(arguments: list[str] | None = None) -> None:
    """Draw the samples, explore what the tests reach, try the mutants."""
    given, begun = asked(arguments), time.monotonic()
    log, source = logger(given.log), holder(given.targets[0].resolve())
    samples, possible = {}, {}
    for group, files in groups(given.targets).items():
        every = [mutant for file in files for mutant in mutants(source, file.relative_to(source))]
        possible[group] = len(every)
        samples[group] = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    preload()
    package = given.targets[0].resolve().relative_to(source).parts[0]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        bench = Bench(source, package, Path(folder).resolve(), given.tests)
        bench.fill()
        bench.explore({mutant.path for sample in samples.values() for mutant in sample})
        log(f"{len(bench.reached)} tests pass without a mutant in {bench.seconds:.0f} s")
        run_all(bench, samples, possible, log, begun + 60 * given.minutes)
    log(f"{time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
