"""The command line as users meet it: processes, exit codes, files."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from sigmax.cli.main import app, main

SIGMAX = [sys.executable, "-m", "sigmax"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


class Done(NamedTuple):
    """How a verb ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def sigmax(capsys, monkeypatch):
    """Run a verb to its end, in this process: what the command does, without the seconds torch takes to load."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words, cwd=None):
        capsys.readouterr()
        with monkeypatch.context() as context:
            context.setattr(sys, "argv", ["sigmax", *map(str, words)])
            if cwd is not None:
                context.chdir(cwd)
            with pytest.raises(SystemExit) as end:
                main()
        code = end.value.code
        return Done(0 if code is None else int(code), *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A folder with a small trained network (net.safetensors) and its system (system/), made by the real verbs."""
    folder = tmp_path_factory.mktemp("trained")
    train = "train classifier --data digits --sigma 0.5 --epochs 8 --out net.safetensors".split()
    build = "build smoothed net.safetensors --out system".split()
    with pytest.MonkeyPatch.context() as context:
        context.chdir(folder)
        for words in (train, build):
            done = CliRunner().invoke(app, words, catch_exceptions=False)
            assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def system(trained) -> Path:
    return trained / "system"
