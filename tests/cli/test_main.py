"""What the command says of itself."""

import sigmax as sx


def test_the_version_is_printed_without_a_verb(sigmax):
    done = sigmax("--version")
    assert (done.returncode, done.stdout) == (0, f"sigmax {sx.__version__}\n")


def test_no_verb_is_answered_by_the_help(sigmax):
    done = sigmax()
    assert "Start with: sigmax demo" in done.stdout + done.stderr
