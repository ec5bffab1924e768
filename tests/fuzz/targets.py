"""Every reader of files from elsewhere, as a function of the folder that holds them. `corpus` has whole ones.

A reader may refuse a file by RequestError or RunError. It may not raise anything else, run what the file says, take
memory beyond a multiple of the file's size, or hang.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
_REPORTED = 25  # of so many runs one is reported: figures take a second


def seeds(target: str) -> list[dict[str, bytes]]:
    """The whole inputs of a target: each is a folder of files."""
    return [
        {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        for folder in sorted((CORPUS / target).iterdir())
    ]


def _cli(*words: object) -> None:
    from sigmax.cli.main import app

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        app([str(word) for word in words], standalone_mode=False)


def journal(folder: Path) -> None:
    """`sigmax verify`, `show`, `export`, `report` and going on in a run file."""
    from sigmax.errors import RequestError
    from sigmax.records.journal import check_goes_on
    from sigmax.records.run import read
    from sigmax.records.verify import verify

    path = next(folder.iterdir())
    verify(path)
    run = read(path)
    run.frame()
    if path.suffix == ".jsonl":
        check_goes_on(path, run.plan)
    commands: list[tuple[object, ...]] = [("show", path), ("export", path, "--out", folder / "log.csv")]
    if run.records:
        commands.append(("show", path, "--index", run.records[0].index))
    if path.stat().st_size % _REPORTED == 0:
        commands.append(("report", path, "--out", folder / "report"))
    for words in commands:
        try:
            _cli(*words)
        except RequestError:  # what one of them refuses may still break another
            continue


def log(folder: Path) -> None:
    """`sigmax import`."""
    from sigmax.records.journal import write_all
    from sigmax.records.logs.read import read_log
    from sigmax.records.verify import verify

    path = next(folder.iterdir())
    sigma = (0.25, 0.5, 1.0) if "cascade" in path.name else 0.5
    found = read_log(path, sigma=sigma, n=1_000, alpha=0.001)
    write_all(folder / "run.jsonl", found.plan, found.records)
    verify(folder / "run.jsonl")


def _data(kind: str, *, size: int | None = None) -> Callable[[Path], None]:
    def target(folder: Path) -> None:
        from sigmax.data import load

        where = next(folder.iterdir()) if kind == "npz" else folder
        data = load(f"{kind}:{where}", "test", size=size)
        _ = data.fingerprint, data.pixels(range(min(2, len(data))))

    target.__doc__ = f"The data source {kind}."
    return target


def checkpoint(folder: Path) -> None:
    """A network in a safetensors file."""
    from sigmax import models

    path = next(folder.iterdir())
    if path.name.startswith("denoiser"):
        models.load_denoiser(path)
    else:
        models.load(path)


def system(folder: Path) -> None:
    """A folder of a system."""
    import sigmax as sx

    sx.load(folder)


def onnx(folder: Path) -> None:
    """An ONNX file."""
    from sigmax import models

    models.open_program(next(path for path in folder.iterdir() if path.suffix == ".onnx"))


def configuration(folder: Path) -> None:
    """The TOML files of pipelines and comparisons."""
    from sigmax.pipeline.compare.config import CompareConfig
    from sigmax.pipeline.config import PipelineConfig

    path = next(folder.iterdir())
    (CompareConfig if "compare" in path.name else PipelineConfig).read(path)


TARGETS: dict[str, Callable[[Path], None]] = {
    "journal": journal,
    "log": log,
    "npz": _data("npz"),
    "mnist": _data("mnist"),
    "cifar10": _data("cifar10"),
    "folder": _data("folder", size=8),
    "checkpoint": checkpoint,
    "system": system,
    "onnx": onnx,
    "configuration": configuration,
}


def put(files: dict[str, bytes], folder: Path) -> None:
    """Write the files of an input into a folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
