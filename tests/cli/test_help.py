"""What the command says of itself: help, examples, keys, version."""

import pytest
from typer.main import get_command

import sigmax as sx
from sigmax.cli.main import app
from sigmax.cli.options import SOURCES
from sigmax.data import registry
from tests.schemes.helpers import own_schemes

SHORT = ("train classifier", "train router", "train denoiser", "finetune", "label", "bench", "build smoothed")


def verbs(command, *path):
    """Every command below this one, by its words."""
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    return {words: verb for name, part in command.commands.items() for words, verb in verbs(part, *path, name).items()}


VERBS = verbs(get_command(app))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb, sigmax):
    command = VERBS[verb]
    assert f"Example: `sigmax {verb}" in command.help
    for option in command.params:
        assert getattr(option, "help", None), f"{option.name} has no help text"
    shown = sigmax(*verb.split(), "--help")
    assert shown.returncode == 0
    usage = next(line for line in shown.stdout.splitlines() if "Usage:" in line)
    assert "{" not in usage
    assert "...." not in usage
    assert "bool" not in shown.stdout


def test_the_verbs_are_those_of_the_design():
    top = {verb.split()[0] for verb in VERBS}
    assert {*"demo label calibrate finetune certify predict show verify report compare".split()} <= top
    assert {*"plan import export merge bench train build pipeline".split()} <= top


@pytest.mark.parametrize("verb", SHORT)
def test_a_dozen_options_are_enough(verb):
    assert sum(param.param_type_name == "option" for param in VERBS[verb].params) <= 12


def test_every_scheme_can_be_built_and_every_source_is_named():
    assert {f"build {name}" for name in own_schemes()} <= set(VERBS)
    assert registry.usages() == SOURCES


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("train classifier", ["training.lr", "number > 0", "method.` of macer", "plain_epochs", "data_dependent"]),
        ("train router", ["training.epochs", "held_out", "objective=certified", "temperature"]),
        ("train denoiser", ["training.ema", "classifier_weight"]),
        ("finetune", ["consistency", "votes that decide"]),
        ("label", ["fraction", "sample_seed"]),
        ("calibrate", ["objective", "radii"]),
        ("bench", ["reference_inputs"]),
        ("diagnose gradients", ["method.` of macer", "plain_epochs"]),
    ],
)
def test_the_keys_of_set_are_listed_without_other_options(verb, words, sigmax):
    shown = sigmax(*verb.split(), "--keys")
    assert shown.returncode == 0, shown.stderr
    for word in words:
        assert word.replace("`", "") in shown.stdout


@pytest.mark.parametrize("verb", ["train classifier", "train router", "diagnose gradients"])
def test_no_key_is_required_where_the_verb_fills_it_in(verb, sigmax):
    shown = sigmax(*verb.split(), "--keys")
    assert shown.returncode == 0, shown.stderr
    assert "default" in shown.stdout
    assert "required" not in shown.stdout


def test_a_wrong_key_names_the_right_ones(sigmax, tmp_path):
    words = ["train", "classifier", "--data", "digits", "--sigma", 0.5, "--out", tmp_path / "n.safetensors", "--set"]
    for change, message in (
        ("training.epoch=3", "[training] has no 'epoch'"),
        ("training.lr=fast", "training.lr: expected a number, got 'fast'"),
        ("lr", "KEY=VALUE"),
    ):
        refused = sigmax(*words, change)
        assert refused.returncode == 2
        assert message in " ".join(refused.stderr.split())


def test_the_version_is_printed_without_a_verb(sigmax):
    done = sigmax("--version")
    assert (done.returncode, done.stdout) == (0, f"sigmax {sx.__version__}\n")


def test_no_verb_is_answered_by_the_help(sigmax):
    done = sigmax()
    assert "Start with: sigmax demo" in done.stdout + done.stderr
