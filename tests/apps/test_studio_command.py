"""The command that starts the studio."""

import os
import socket
import subprocess
import sys
import warnings
from urllib.parse import urlsplit

import pytest
from studio_client import Page, png, serving

from nlridge.apps.cli import main


def _started(*words, **options):
    """Start the command; returns the process and the line it prints."""
    command = [sys.executable, "-m", "nlridge", "studio", "--no-browser", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # fmt: skip
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_the_command_prints_one_line_and_ends_with_ctrl_c(tmp_path):
    import signal

    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process, address = _started(env=environment)
    try:
        assert address.startswith("http://127.0.0.1:")
        page = Page(address)
        page.open("a.png", png(64, 64))
        (work,) = tmp_path.iterdir()
        assert work.stat().st_mode & 0o077 == 0  # nobody else may look
        with page.events():
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_a_file_named_on_the_command_line_is_opened(tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 40))
    with serving(tmp_path / "work", tmp_path / "a.png") as running:
        page = Page(running.address)
        (image,) = page.get("/api/state")[1]["images"]
        assert (image["name"], image["can_save_beside"]) == ("a.png", True)
        assert page.save(image, where="beside")[1] == {"name": "a_denoised.png"}
        assert main(["denoise", str(tmp_path / "a.png"), "-o", str(tmp_path / "b.png"), "--quiet"]) == 0  # fmt: skip
        assert (tmp_path / "a_denoised.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "80"], "port is 80; expected at least 1024"),
        (["--port", "99999"], "port is 99999; expected at most 65535"),
        (["--address", "example.org"], "address is example.org; expected an IP address"),
        (["--address", "203.0.113.7"], "address is 203.0.113.7"),
        (["missing.png"], "missing.png: no such file or folder"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, capsys):
    assert main(["studio", "--no-browser", *words]) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_port_in_use_gets_one_sentence(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["studio", "--no-browser", "--port", str(port)]) == 1
    assert f"port is {port}, which is in use" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_gets_one_sentence(tmp_path, capsys):
    (tmp_path / "a.png").write_bytes(b"nonsense")
    assert main(["studio", "--no-browser", str(tmp_path / "a.png")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_missing_extra_gets_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["studio", "--no-browser"]) == 1
    error = capsys.readouterr().err
    assert "the studio needs uvicorn, which is not installed: pip install uvicorn" in error


@pytest.mark.slow
def test_another_address_demands_the_token_and_warns(tmp_path):
    process, address = _started("--address", "0.0.0.0")
    try:
        port = urlsplit(address).port
        assert "token=" in address
        page = Page.__new__(Page)
        page.host = f"127.0.0.1:{port}"
        assert page.get("/")[0] == 403
        assert page.get("/api/state")[0] == 403
        assert page.get("/", Host=f"evil.example:{port}")[0] == 403
        assert page.get("/", Host=f"0.0.0.0:{port}")[0] == 403
        page = Page(address.replace(urlsplit(address).hostname, "127.0.0.1"))
        assert page.get("/api/state")[0] == 200
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=120)
    assert "warning" in errors
    assert "not encrypted" in errors


def test_it_listens_on_this_computer_alone(page):
    port = int(page.host.partition(":")[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = {
            info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        }
    for address in own - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):  # noqa: PT011
            pass


@pytest.mark.slow
def test_help_needs_nothing_heavy():
    code = "import sys\nfrom nlridge.apps.cli.parser import build_parser\nbuild_parser().format_help()\n"
    code += "assert not {'starlette', 'uvicorn', 'numpy', 'numba'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
