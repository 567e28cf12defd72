"""The denoisers that the paper compares with: networks of random weights, and wrong files."""

import argparse
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from benchmarks import measuring, peers
from benchmarks.methods import denoiser
from PIL import Image

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("one_torch_thread")

ROOT = Path(__file__).parents[2]

TINY = {
    "dip": "channels=8,levels=2,smoothing=0.5",
    "noise2self": "channels=8,layers=4,every=2",
    "self2self": "channels=6,levels=2,predictions=3,learning_rate=0.001",
}


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    for name in ("weights", "checkpoints", "checkouts", "filters"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(peers.folders, name, tmp_path / name)
    return peers.folders


@pytest.fixture
def noisy():
    ramp = np.linspace(50, 200, 37)[:, None] + np.linspace(0, 30, 30)
    return (ramp + np.random.default_rng(0).normal(0, 25, ramp.shape)).astype(np.float32)


def convolutions(*channels, seed=0):
    random = np.random.default_rng(seed)
    return [
        (random.normal(0, 0.1, (b, a, 3, 3)).astype(np.float32), random.normal(0, 0.1, b).astype(np.float32))
        for a, b in pairwise(channels)
    ]  # fmt: skip


def save_torch(path, layers, prefix="model."):
    state = {}
    for k, (weight, bias) in enumerate(layers):
        state |= {f"{prefix}{2 * k}.weight": torch.tensor(weight), f"{prefix}{2 * k}.bias": torch.tensor(bias)}  # fmt: skip
    torch.save(state, path)


def save_matlab_5(path, layers):
    io = pytest.importorskip("scipy.io")
    cells = []
    for weight, bias in layers:
        pair = np.empty(2, object)
        pair[:] = [weight.transpose(2, 3, 1, 0), bias]
        cells += [{"type": "conv", "weights": pair}, {"type": "relu"}]
    io.savemat(path, {"net": {"layers": np.array(cells[:-1], object)}})


def save_matlab_7(path, layers):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        references = []
        for k, (weight, bias) in enumerate(layers):
            weight = weight.transpose(0, 1, 3, 2)
            file[f"#refs#/{k}/w"] = weight[0] if len(weight) == 1 else weight
            file[f"#refs#/{k}/b"] = bias[None]
            cell = file.create_dataset(f"#refs#/{k}/layer/weights", (2, 1), h5py.ref_dtype)
            cell[:, 0] = [file[f"#refs#/{k}/w"].ref, file[f"#refs#/{k}/b"].ref]
            references.append(file[f"#refs#/{k}/layer"].ref)
        layers = file.create_dataset("net/layers", (len(references), 1), h5py.ref_dtype)
        layers[:, 0] = references
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(128))


def test_methods_are_found_by_name():
    trained_here, trained_before = ["dip", "noise2self", "self2self"], ["dncnn", "ffdnet", "lidia"]
    examples = ["low_rank", "optimal_weights", "pewa", "plr"]
    filters = ["bm3dcpu", "ffmpeg", "vapoursynth_bm3d"]
    assert sorted([*trained_here, *trained_before, *examples, *filters]) == sorted(peers.names())
    assert not peers.is_peer("nl-ridge,p2=7")
    with pytest.raises(ValueError, match="an option of dip is 'turns'; expected iterations, seed"):
        denoiser("dip,turns=3")


def test_pytorch_is_asked_for(monkeypatch):
    for name in ("torch", "benchmarks.peers.dncnn", "benchmarks.peers._weights"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.dncnn")
    monkeypatch.delitem(sys.modules, "benchmarks.peers._weights")
    with pytest.raises(ImportError, match=r'dncnn needs PyTorch: pip install "\.\[peers\]"'):
        denoiser("dncnn")


@pytest.mark.parametrize("shape", [(37, 30), (20, 24, 3)])
@pytest.mark.parametrize("name", TINY)
def test_networks_train_on_gray_and_color(name, shape):
    noisy = np.random.default_rng(0).normal(120, 25, shape).astype(np.float32)
    before = noisy.copy()
    result = denoiser(f"{name},iterations=3,{TINY[name]}")(noisy, 25)
    assert result.shape == shape
    assert np.isfinite(result).all()
    np.testing.assert_array_equal(noisy, before)


@pytest.mark.parametrize("name", TINY)
def test_training_reduces_the_loss(name, noisy):
    torch.manual_seed(0)
    trained = denoiser(f"{name},{TINY[name]}")
    image = torch.tensor(noisy / 255)[None, None]
    fit = trained.start(image, **{**trained.settings, "learning_rate": 0.01})

    def loss():  # the same random numbers each time
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return fit.step(0)

    first = loss()
    for _ in range(20):
        fit.optimiser.zero_grad()
        loss().backward()
        fit.optimiser.step()
    assert loss() < 0.9 * first


@pytest.mark.parametrize("name", TINY)
def test_a_stopped_run_resumes_as_if_it_had_not_been_stopped(name, noisy, folders, tmp_path):
    short, whole = (denoiser(f"{name},iterations={n},{TINY[name]}") for n in (4, 7))
    expected = short(noisy, 25)
    resumed = whole(noisy, 25)
    assert whole.earlier_seconds > 0
    folders.checkpoints = tmp_path / "elsewhere"
    np.testing.assert_array_equal(whole(noisy, 25), resumed)
    assert whole.earlier_seconds == 0
    np.testing.assert_array_equal(short(noisy, 25), expected)  # beside a longer run
    other = denoiser(f"{name},iterations=4,seed=1,{TINY[name]}")
    assert np.abs(other(noisy, 25) - expected).max() > 0.01


def test_progress_is_shown_from_where_a_run_resumes(noisy, monkeypatch):
    from benchmarks.peers import _training

    seen = []
    monkeypatch.setattr(_training, "shown", lambda things, what: seen.append((things, what)) or things)  # fmt: skip
    for iterations in (2, 3):
        denoiser(f"dip,iterations={iterations},channels=4,levels=1")(noisy, 25)
    assert seen == [(range(2), "dip"), (range(2, 3), "dip")]


def test_the_seconds_of_a_resumed_run_include_the_earlier_ones(noisy):
    call = "dip,iterations={},channels=4,levels=1"
    _, first, _ = measuring._measure(call.format(20), noisy, 25, noisy)
    _, both, _ = measuring._measure(call.format(21), noisy, 25, noisy)
    assert both > 0.8 * first


def test_noise2self_predicts_a_pixel_without_itself():
    from benchmarks.peers.noise2self import grid, without

    image = torch.rand(1, 1, 9, 10)
    masks = torch.stack([grid(image, phase) for phase in range(16)])
    assert (masks.sum(0) == 1).all()
    other = torch.where(masks[5], torch.rand(image.shape), image)
    torch.testing.assert_close(without(image, masks[5]), without(other, masks[5]))


def test_partial_convolutions_ignore_missing_pixels():
    from benchmarks.peers.self2self import PartialConvolution

    layer = PartialConvolution(1, 2)
    known = (torch.rand(1, 1, 8, 8) < 0.5).float()
    image = torch.rand(1, 1, 8, 8)
    with torch.no_grad():
        result, _ = layer(image, known)
        other, _ = layer(torch.where(known > 0, image, 7.0), known)
    torch.testing.assert_close(result, other)


@pytest.mark.parametrize(
    "save", [save_torch, save_matlab_5, save_matlab_7], ids=["torch", "MATLAB 5", "MATLAB 7.3"]
)
def test_dncnn_is_a_sequence_of_convolutions(save, noisy, folders):
    layers = convolutions(1, 5, 6, 1)
    save(folders.weights / f"dncnn-25{'.pth' if save is save_torch else '.mat'}", layers)
    x = torch.tensor(noisy / 255)[None, None]
    residual = x
    for k, (weight, bias) in enumerate(layers):
        residual = torch.conv2d(residual, torch.tensor(weight), torch.tensor(bias), padding=1)
        residual = residual.relu() if k < 2 else residual
    expected = 255 * (x - residual)[0, 0].numpy()
    np.testing.assert_allclose(denoiser("dncnn")(noisy, 25), expected, atol=1e-3)


def test_normalisation_becomes_part_of_the_convolutions(tmp_path):
    from benchmarks.peers._weights import convolutions as read
    from benchmarks.peers._weights import sequence

    plain = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(4, 4, 3, padding=1, bias=False), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.Conv2d(4, 1, 3, padding=1),
    )  # fmt: skip
    x = torch.rand(2, 1, 9, 9)
    plain(10 * x)  # other running means
    plain.eval()
    torch.save({"state_dict": {f"module.{k}": v for k, v in plain.state_dict().items()}}, tmp_path / "a.pth")  # fmt: skip
    torch.testing.assert_close(sequence(read(tmp_path / "a.pth"))(x), plain(x))


@pytest.mark.parametrize("planes", [1, 3])
def test_ffdnet_of_both_kinds_of_files(planes, noisy, folders):
    """The files order the pixels differently: with the weights permuted likewise, the result is the same."""
    layers = convolutions(4 * planes + 1, 6, 4 * planes)
    kind = {1: "gray", 3: "color"}[planes]
    image = noisy if planes == 1 else np.stack([noisy, noisy + 9, noisy - 20], axis=-1)
    save_torch(folders.weights / f"ffdnet-{kind}.pth", layers)
    expected = denoiser("ffdnet")(image, 25)
    assert expected.shape == image.shape
    order = [4 * c + k for c in range(planes) for k in (0, 2, 1, 3)]
    (first, shift), (last, bias) = layers
    save_matlab_5(
        folders.weights / f"ffdnet-{kind}.mat",
        [(first[:, [*order, 4 * planes]], shift), (last[order], bias[order])],
    )
    np.testing.assert_allclose(denoiser("ffdnet")(image, 25), expected, atol=1e-3)
    assert np.abs(denoiser("ffdnet")(image, 50) - expected).max() > 0.01


@pytest.mark.parametrize(
    ("name", "channels", "message"),
    [
        ("dncnn", (3, 4, 3), "dncnn-25.pth holds a network of 3 to 3 channels; expected 1 to 1"),
        ("dncnn", (1, 1), "dncnn-25.pth holds 1 convolutions"),
        ("ffdnet", (15, 4, 12), "ffdnet-gray.pth holds a network of 15 to 12 channels; expected 5 to 4"),
    ],
)  # fmt: skip
def test_a_file_of_another_network_is_refused(name, channels, message, noisy, folders):
    file = {"dncnn": "dncnn-25.pth", "ffdnet": "ffdnet-gray.pth"}[name]
    save_torch(folders.weights / file, convolutions(*channels))
    with pytest.raises(ValueError, match=message):
        denoiser(name)(noisy, 25)


def test_another_network_of_the_same_shape_is_refused(noisy, folders):
    save_torch(folders.weights / "ffdnet-gray.pth", convolutions(5, 6, 4), "module.inter_dncnn.")
    with pytest.raises(ValueError, match=r"ffdnet-gray\.pth holds the FFDNet of IPOL"):
        denoiser("ffdnet")(noisy, 25)


def test_a_measurement_outlives_changes_of_what_it_does_not_depend_on(monkeypatch):
    before = {name: measuring._digest(name) for name in ("dncnn", "low_rank", "fast")}
    assert before["low_rank"] == before["fast"] != before["dncnn"]
    monkeypatch.setattr(measuring.nlridge, "__file__", str(ROOT / "fuzz" / "__init__.py"))
    assert measuring._digest("dncnn") == before["dncnn"]
    assert measuring._digest("fast") != before["fast"]


def test_the_frontier_is_drawn_from_its_figures(tmp_path, monkeypatch):
    from benchmarks import frontier

    drawn = []
    monkeypatch.setattr(frontier, "_draw", lambda points, *others: drawn.append(points))
    (tmp_path / "set12").mkdir()
    for name, side in (("01", 40), ("02", 512)):
        ramp = np.linspace(40, 200, side**2).reshape(side, side).astype(np.uint8)
        Image.fromarray(ramp).save(tmp_path / "set12" / f"{name}.png")
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=str(tmp_path))
    measuring.add_arguments(parser)
    frontier.add_arguments(parser)
    trained = "dip,iterations=2,channels=4,levels=1"
    words = ["--results", str(tmp_path), "--picture", str(tmp_path / "a.png"), "--part", ":1"]
    frontier.run(parser.parse_args([*words, "--frontier-methods", "fast", trained]))
    ((fast, dip),) = drawn
    assert (fast.method, fast.images) == ("fast", 1)
    assert (dip.method, dip.images) == (trained, 1)
    rows = (tmp_path / "images.csv").read_text().splitlines()
    seconds = next(float(row.split(",")[-2]) for row in rows if trained in row)
    assert dip.seconds == pytest.approx(seconds * (512 / 40) ** 2, abs=1e-3)
    frontier.run(parser.parse_args([*words, "--redraw"]))
    assert drawn == [[fast, dip]] * 2


FILTERS = ROOT / ".venv-filters"


@pytest.mark.parametrize("name", ["dctdnoiz", "nlmeans", "fftdnoiz", "vaguedenoiser", "bm3d"])
def test_filters_of_ffmpeg_remove_noise(name, noisy):
    """Whether they know 16 bits or 8, and whatever the size; their time is that of the filter alone."""
    pytest.importorskip("imageio_ffmpeg")
    noisy = np.tile(noisy, (3, 3))[:101, :87]
    call = denoiser(f"ffmpeg,filter={name}")
    result = call(noisy, 25)
    assert result.shape == noisy.shape
    smooth = np.abs(np.diff(result, axis=1)).mean()
    assert smooth < 0.7 * np.abs(np.diff(noisy, axis=1)).mean()
    assert abs(np.mean(result - noisy)) < 3
    assert call.processor_seconds(np.tile(noisy, (6, 6)), 25) > 0


@pytest.mark.skipif(not FILTERS.exists(), reason="make .venv-filters/bench-filters installs it")
@pytest.mark.parametrize("name", ["bm3dcpu,step=4", "bm3dcpu,stages=1", "vapoursynth_bm3d"])
def test_filters_of_vapoursynth_remove_noise(name, noisy, folders, monkeypatch):
    monkeypatch.setattr(folders, "filters", FILTERS)
    noisy = np.tile(noisy, (3, 3))[:101, :87]
    call = denoiser(name)
    result = call(noisy, 25)
    assert result.shape == noisy.shape
    assert np.abs(np.diff(result, axis=1)).mean() < 0.5 * np.abs(np.diff(noisy, axis=1)).mean()
    assert abs(np.mean(result - noisy)) < 1
    assert call.processor_seconds(noisy, 25) > 0
    with pytest.raises(RuntimeError, match=r"VapourSynth says: .*block_step"):
        denoiser("bm3dcpu,step=99")(noisy, 25)


def test_filters_that_are_not_there(noisy):
    with pytest.raises(ValueError, match="the filter is 'blur'; expected dctdnoiz, nlmeans"):
        denoiser("ffmpeg,filter=blur")
    with pytest.raises(ImportError, match=r"make \.venv-filters/bench-filters"):
        denoiser("bm3dcpu")(noisy, 25)


def test_methods_that_are_not_installed_are_left_out_of_the_frontier(capsys):
    from benchmarks import frontier

    assert frontier._installed(["noisy", "bm3dcpu", "dncnn"], 25) == ["noisy"]
    said = capsys.readouterr().out
    assert "bm3dcpu is left out: filters of VapourSynth need an environment" in said
    assert "dncnn is left out: the folder of weights is" in said


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("dncnn-25.mat", "dncnn-25.mat is not a network of MatConvNet's"),
        ("dncnn-25.pth", "dncnn-25.pth is not a file of PyTorch's that holds weights alone"),
    ],
)
def test_a_file_of_another_kind_is_refused(file, message, noisy, folders):
    pytest.importorskip("scipy")
    (folders.weights / file).write_bytes(b"something else" * 30)
    with pytest.raises(ValueError, match=message):
        denoiser("dncnn")(noisy, 25)


def test_weights_and_code_that_are_missing_are_named(noisy, folders):
    with pytest.raises(
        FileNotFoundError, match=r"expected one with dncnn-20\.mat, dncnn-20\.pth or"
    ):
        denoiser("dncnn")(noisy, 20)
    save_torch(folders.weights / "lidia-25.pt", convolutions(1, 1))
    with pytest.raises(FileNotFoundError, match=r"expected a clone of github\.com/"):
        denoiser("lidia")(noisy, 25)


def test_lidia_is_run_by_code_of_the_user(noisy, folders):
    code = folders.checkouts / "lidia" / "code"
    code.mkdir(parents=True)
    (code / "data_modules.py").write_text("import imageio, torchvision.transforms as transforms\n")
    (code / "utils.py").write_text("from data_modules import *\ndef calc_padding(options): return 1, 2\n")  # fmt: skip
    (code / "modules.py").write_text("""
from utils import *
import torch
class ArchitectureOptions:
    def __init__(self, rgb, small_network): pass
class NonLocalDenoiser(torch.nn.Module):
    def __init__(self, pad, options):
        super().__init__()
        self.patch_denoise_net = torch.nn.Linear(1, 1)
    def forward(self, image, train, save_memory, max_chunk): return 0.5 * image
""")
    state = torch.nn.Linear(1, 1).state_dict()
    torch.save({"state_dict": state, "i": 3}, folders.weights / "lidia-25.pt")
    expected = 127.5 + 0.5 * (noisy - 127.5)
    np.testing.assert_allclose(denoiser("lidia")(noisy, 25), expected, atol=1e-3)
    assert "data_modules" not in sys.modules
    save_torch(folders.weights / "lidia-15.pt", convolutions(1, 1))
    with pytest.raises(ValueError, match=r"lidia-15\.pt does not hold the weights of LIDIA"):
        denoiser("lidia")(noisy, 15)


@pytest.mark.parametrize("suffix", ["", ".npy", ".png"])
def test_any_other_program_is_a_command_line(suffix, noisy, tmp_path):
    program = tmp_path / "halve.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from benchmarks.peers._command import _read, _write\n"
        "from pathlib import Path\n"
        "source, target, level = sys.argv[1:]\n"
        "_write(Path(target), _read(Path(source)) / float(level))\n"
    )
    command = f"{sys.executable} {program} {{input}}{suffix} {{output}}.npy {{sigma}}"
    expected = (np.clip(noisy, 0, 255) if suffix == ".png" else noisy) / 2.5
    atol = 0.3 if suffix == ".png" else 1e-4
    np.testing.assert_allclose(denoiser(command)(noisy, 2.5), expected, atol=atol)


def test_a_program_that_fails_is_quoted(noisy):
    command = (
        f"{sys.executable} -c 'raise SystemExit(\"no such level\")' {{input}} {{output}} {{sigma}}"
    )
    with pytest.raises(RuntimeError, match="wrote no result: no such level"):
        denoiser(command)(noisy, 25)
    with pytest.raises(ValueError, match=re.escape("expected one with {output}")):
        denoiser("program {input} {sigma}")
