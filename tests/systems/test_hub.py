"""Systems through the real client of the hub, against a small hub on this machine."""

import os
import subprocess
import sys

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.systems import fingerprint, from_pretrained, push_to_hub, save_pretrained
from tests.systems.hub_server import Hub

pytest.importorskip("huggingface_hub", reason="the hub's client")


def system():
    torch.manual_seed(0)
    net = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    options = {"width": 8, "multipliers": (1,), "blocks": 1, "attention": ()}
    described = models.Description(architecture="unet", classes=0, input_shape=(1, 8, 8), options=options)
    return sx.Smoothed(sx.Denoised(models.create_denoiser(described), net), sigma=0.25, classes=10)


@pytest.fixture
def hub():
    server = Hub()
    yield server
    server.shutdown()


def client(code, hub, tmp_path):
    """Run code in a process of its own: the client reads where the hub is, and its login, when it is imported."""
    where = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "cache"), "HF_TOKEN": "hf_of_no_use_elsewhere"}
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    environment = {**os.environ, **where, **quiet, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip().splitlines()[-1]


def test_what_is_put_there_comes_back(hub, tmp_path):
    folder = save_pretrained(system(), tmp_path / "system")
    (folder / "notes.pkl").write_bytes(b"never leaves")
    put = f"from sigmax.systems import push_to_hub; print(push_to_hub({str(folder)!r}, 'me/digits'))"
    assert client(put, hub, tmp_path).endswith("/me/digits")
    names = {"system.toml", "base.safetensors", "denoiser.safetensors", "README.md"}
    assert set(hub.files["me/digits"]) - {".gitattributes"} == names
    assert all(hub.files["me/digits"][name] == (folder / name).read_bytes() for name in names)
    fetch = (
        "import sigmax as sx; from sigmax.systems import fingerprint, from_pretrained;"
        "print(fingerprint(from_pretrained('me/digits')), fingerprint(sx.load('hub:me/digits')))"
    )
    expected = fingerprint(system())
    assert client(fetch, hub, tmp_path) == f"{expected} {expected}"


def test_files_exchanged_on_the_hub_are_noticed(hub, tmp_path):
    folder = save_pretrained(system(), tmp_path / "system")
    hub.files["me/digits"] = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    hub.files["me/digits"]["base.safetensors"] = models.save(tmp_path / "other.safetensors", other).read_bytes()
    code = (
        "import sigmax as sx\n"
        "try: sx.load('hub:me/digits')\n"
        "except sx.RequestError as error: print('not the network' in str(error))"
    )
    assert client(code, hub, tmp_path) == "True"


def test_what_is_not_there_is_a_wrong_request(hub, tmp_path):
    code = (
        "import sigmax as sx\n"
        "try: sx.load('hub:me/nothing')\n"
        "except sx.RequestError as error: print('neither a folder me/nothing nor such a repository' in str(error))"
    )
    assert client(code, hub, tmp_path) == "True"


def test_a_hub_out_of_reach_is_a_failed_run(hub, tmp_path):
    hub.shutdown()
    hub.server_close()
    code = (
        "import sigmax as sx\n"
        "try: sx.load('hub:me/digits')\n"
        "except sx.RunError as error: print('could not be fetched' in str(error))"
    )
    assert client(code, hub, tmp_path) == "True"


def test_a_folder_is_read_without_any_hub(tmp_path):
    scheme = system()
    folder = save_pretrained(scheme, tmp_path / "system")
    assert fingerprint(from_pretrained(folder, batch=16)) == fingerprint(scheme)
    assert fingerprint(scheme) in (folder / "README.md").read_text()
    (folder / "README.md").write_text("our own words")
    assert (save_pretrained(scheme, folder) / "README.md").read_text() == "our own words"


@pytest.mark.parametrize("name", ["digits", "a/b/c", "./nowhere/here", "/no/where"])
def test_a_name_that_cannot_be_a_repository_is_refused(name, tmp_path):
    with pytest.raises(sx.RequestError, match="expected a system folder or the hub's name of one, such as owner/name"):
        from_pretrained(name)
    if name != "/no/where":
        return
    with pytest.raises(sx.RequestError, match="a repository is named owner/name"):
        push_to_hub(tmp_path, "digits")


def test_only_a_whole_system_is_put_there(tmp_path):
    with pytest.raises(sx.RequestError, match="expected a system folder with a system.toml"):
        push_to_hub(tmp_path, "me/digits")


def test_without_the_client_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(sx.RequestError, match=r"pip install 'sigmax\[hub\]'"):
        sx.load("hub:me/digits")
