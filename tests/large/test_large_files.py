"""Files larger than memory: Zarr, NPY and TIFF, on the command line too."""

import json
import os

import numpy as np
import pytest
from large_images import GIVEN, noisy

import nlridge
from nlridge.apps.cli import main
from nlridge.large import limits

zarr = pytest.importorskip("zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_keeps_its_attributes_and_version(tmp_path, version):
    image = (50 * noisy(150, 130)).astype(np.uint16)
    store = str(tmp_path / "in.zarr")
    made = zarr.create_array(
        store, data=image, chunks=(64, 64), zarr_format=version, attributes={"from": "a scanner"}
    )
    tiled = nlridge.denoise_to_disk(made, tmp_path / "out.zarr", 1000, data_range=12750, tile=64)
    assert tiled.metadata.zarr_format == version
    assert dict(tiled.attrs) == {"from": "a scanner"}
    assert tiled.chunks == (64, 64)
    assert np.array_equal(tiled[:], nlridge.denoise(image, 1000, data_range=12750))


@pytest.mark.parametrize("version", [2, 3])
def test_a_pyramid_of_images_stays_one(tmp_path, version, capsys):
    """OME-Zarr: the largest image is cleaned, and the smaller ones are made from it; metadata stay."""
    image = np.clip(50 * noisy(101, 130, 2, 3), 0, 65535).astype(np.uint16)
    axes = [{"name": name} for name in "tcyx"]
    scales = [{"axes": axes, "datasets": [{"path": "0"}, {"path": "1"}], "version": "0.4"}]
    about = {"multiscales": scales} if version == 2 else {"ome": {"multiscales": scales}}
    group = zarr.create_group(tmp_path / "in.zarr", zarr_format=version, attributes=about)
    group.create_array("0", data=image, chunks=(1, 1, 64, 64))
    group.create_array("1", data=image[..., ::2, ::2], chunks=(1, 1, 64, 64))
    options = ["--method", "fast", "--sigma", "1000", "--tile", "64", "--frames", "independent"]
    assert (
        main(["denoise", str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), *options])
        == 0
    )
    assert "standard deviation of 1000" in capsys.readouterr().out
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert dict(out.attrs) == about
    clean = nlridge.denoise(image, 1000, method="fast", stack_axis=0, channel_axis=1)
    assert np.array_equal(out["0"][:], np.clip(np.rint(clean), 0, 65535).astype(np.uint16))
    assert out["1"].shape == (2, 3, 51, 65)
    means = out["0"][..., :100, :].reshape(2, 3, 50, 2, 65, 2).mean(axis=(3, 5))
    assert np.array_equal(out["1"][..., :50, :], np.rint(means))


@pytest.mark.parametrize("suffix", ["npy", "tif"])
def test_files_on_the_command_line(tmp_path, suffix, capsys):
    import tifffile

    image = (50 * noisy(150, 130)).astype(np.uint16)
    source = tmp_path / f"in.{suffix}"
    if suffix == "npy":
        np.save(source, image)
    else:
        tifffile.imwrite(source, image, compression="zlib", tile=(64, 64))
    assert main(["denoise", str(source), "--method", "fast", "--tile", "64", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["status"] == "done"
    target = tmp_path / f"in_denoised.{suffix}"
    result = np.load(target) if suffix == "npy" else tifffile.imread(target)
    assert result.dtype == np.uint16
    assert np.array_equal(result, np.rint(nlridge.denoise(image, method="fast")))
    assert main(["denoise", str(source), "--tile", "64"]) == 1
    assert "in_denoised" in capsys.readouterr().err
    assert main(["denoise", str(source), "--tile", "64", "--skip-existing"]) == 0


def test_a_tiff_file_in_color(tmp_path):
    import tifffile

    image = np.clip(noisy(90, 80, 3), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    tifffile.imwrite(tmp_path / "in.tif", image, photometric="rgb")
    given = ["--method", "fast", "--sigma", "20", "--tile", "64"]
    assert main(["denoise", str(tmp_path / "in.tif"), "-o", str(tmp_path / "out.tif"), *given]) == 0
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        assert file.pages.first.photometric == tifffile.PHOTOMETRIC.RGB
        result = file.asarray()
    clean = nlridge.denoise(image, 20, method="fast", channel_axis=-1)
    assert np.array_equal(result, np.clip(np.rint(clean), 0, 255))


def test_nothing_that_is_not_a_result_is_replaced(tmp_path, capsys):
    image = noisy(70, 80)
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("in.zarr", data=image, chunks=(64, 64))
    (tmp_path / "other.npy").mkdir()
    (tmp_path / "other.npy" / "letter.txt").write_text("dear")
    for target in ("g.zarr", "g.zarr/in.zarr", "g.zarr/in.zarr/out.zarr", "other.npy"):
        given = [str(tmp_path / "g.zarr" / "in.zarr"), "-o", str(tmp_path / target), "--overwrite"]
        assert main(["denoise", *given, "--sigma", "20", "--json"]) == 1
        said = capsys.readouterr()
        assert "expected another" in said.err
        assert json.loads(said.out)["status"] == "failed"
    assert np.array_equal(zarr.open_array(tmp_path / "g.zarr" / "in.zarr", mode="r")[:], image)
    assert (tmp_path / "other.npy" / "letter.txt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.zarr", "other.npy"]


def _tiff(path, pixels, **options):
    import tifffile

    with tifffile.TiffWriter(path) as file:
        for image in pixels:
            file.write(image, **options)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(70, 80, 4)], {"photometric": "rgb", "extrasamples": ["unassalpha"]}, "it has extra samples"),
        ([(70, 80)], {"photometric": "miniswhite"}, "it is a negative"),
        ([(70, 80)], {"photometric": "palette", "colormap": np.zeros((3, 256), np.uint16)}, "palette"),
        ([(70, 80), (80, 70)], {}, "it holds 2 images"),
    ],
)  # fmt: skip
def test_tiff_files_that_are_more_than_an_array(shapes, options, message, tmp_path, capsys):
    rng = np.random.default_rng(0)
    _tiff(
        tmp_path / "in.tif", [rng.integers(0, 255, s).astype(np.uint8) for s in shapes], **options
    )
    assert main(["denoise", str(tmp_path / "in.tif"), "--tile", "64"]) == 1
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


def test_a_tiff_file_that_was_cut_off(tmp_path, capsys):
    _tiff(tmp_path / "in.tif", [noisy(70, 80)])
    whole = (tmp_path / "in.tif").read_bytes()
    (tmp_path / "in.tif").write_bytes(whole[:-1000])
    assert main(["denoise", str(tmp_path / "in.tif"), "--tile", "64"]) == 1
    assert "the file is damaged" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


def test_a_stack_of_a_tiff_file_by_its_axes(tmp_path):
    import tifffile

    image = (50 * noisy(70, 80, 3)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "in.tif", image, photometric="minisblack")
    given = [str(tmp_path / "in.tif"), "--method", "fast", "--sigma", "1000", "--tile", "64"]
    assert main(["denoise", *given]) == 0
    apart = nlridge.denoise(image, 1000, method="fast", stack_axis=0)
    assert np.array_equal(tifffile.imread(tmp_path / "in_denoised.tif"), np.rint(apart))
    assert main(["denoise", *given, "--overwrite", "--channel-axis", "0"]) == 0
    together = nlridge.denoise(image, 1000, method="fast", channel_axis=0)
    assert np.array_equal(tifffile.imread(tmp_path / "in_denoised.tif"), np.rint(together))


def _pyramid(path, version, *shapes):
    axes = [{"name": name} for name in ("depth", "y", "x")]
    scales = [{"axes": axes, "datasets": [{"path": str(k)} for k in range(len(shapes))]}]
    about = {"multiscales": scales} if version == 2 else {"ome": {"multiscales": scales}}
    group = zarr.create_group(path, zarr_format=version, attributes=about)
    names = {} if version == 2 else {"dimension_names": ["depth", "y", "x"]}
    for k, shape in enumerate(shapes):
        group.create_array(
            str(k), shape=shape, dtype="uint16", chunks=(1, 64, 64), fill_value=7, **names,
            chunk_key_encoding={"name": "v2", "separator": "/"} if version == 2 else None,
        )  # fmt: skip
    return group


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_of_a_pyramid_are_laid_out_as_before(version, tmp_path):
    _pyramid(tmp_path / "in.zarr", version, (2, 100, 90), (2, 50, 45))
    given = [str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), "--tile", "64"]
    assert main(["denoise", *given, "--sigma", "1", "--method", "fast"]) == 0
    before, after = (zarr.open_group(tmp_path / f"{name}.zarr", mode="r") for name in ("in", "out"))
    for name in ("0", "1"):
        one, other = before[name].metadata, after[name].metadata
        assert np.array_equal(after[name][:], before[name][:])
        if version == 2:
            assert one.dimension_separator == other.dimension_separator == "/"
        else:
            assert one.dimension_names == other.dimension_names == ("depth", "y", "x")


def test_levels_that_cannot_be_regenerated(tmp_path, capsys):
    _pyramid(tmp_path / "in.zarr", 3, (1, 200, 200), (1, 130, 130))
    assert main(["denoise", str(tmp_path / "in.zarr"), "--tile", "64"]) == 1
    assert "expected integer factors" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"multiscales": [{"datasets": []}]}, "multiscales that name no arrays; expected a list of datasets"),
        ({"multiscales": [{"datasets": [{}]}]}, "multiscales that name no arrays; expected"),
        ({"multiscales": [{"datasets": [{"path": 5}]}]}, "multiscales that name no arrays; expected"),
        ({"multiscales": []}, "multiscales that name no arrays; expected"),
        ({"multiscales": 7}, "multiscales that name no arrays; expected"),
        ({"ome": ["multiscales"]}, "a group without multiscales; expected an array"),
        ({"ome": None}, "a group without multiscales; expected an array"),
        ({"multiscales": [{"datasets": [{"path": "7"}]}]}, "has no array 7; expected one, since its multiscales name it"),
        ({"multiscales": [{"datasets": [{"path": "../in"}]}]}, "in.zarr is not a readable Zarr array or group"),
        ({"multiscales": [{"datasets": [{"path": "0"}], "axes": 5}]}, "has axes 5; expected a list of names"),
        ({"multiscales": [{"datasets": [{"path": "0"}], "axes": [{"name": 1}]}]}, "expected a list of names"),
        ({"multiscales": [{"datasets": [{"path": "0"}], "axes": ["y", "y"]}]}, "its axes are YY; expected an image with Y and X, each axis once"),
        ({"multiscales": [{"datasets": [{"path": "0"}]}]}, "it has 2 dimensions, (70, 60); expected 5"),
    ],
)  # fmt: skip
def test_invalid_ome_zarr_metadata(about, message, tmp_path, capsys):
    group = zarr.create_group(tmp_path / "in.zarr", attributes=about)
    group.create_array("0", data=noisy(70, 60), chunks=(64, 64))
    for command in ("denoise", "noise"):
        assert main([command, str(tmp_path / "in.zarr")]) == 1
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda chunk: chunk.write_bytes(chunk.read_bytes()[:99]), "image cannot be read: "),
        (lambda chunk: chunk.write_bytes(b"\0" * 5000), "image cannot be read: "),
        (lambda chunk: chunk.write_bytes(b""), "image cannot be read: "),
        (lambda chunk: (chunk.unlink(), os.mkfifo(chunk)), "is not a regular file; expected one"),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes")
def test_damaged_chunks(damage, message, version, tmp_path, capfd):
    made = zarr.create_array(
        tmp_path / "in.zarr", data=noisy(150, 130), chunks=(64, 64), zarr_format=version
    )
    damage(tmp_path / "in.zarr" / ("1.1" if version == 2 else "c/1/1"))
    assert main(["denoise", str(tmp_path / "in.zarr"), "--sigma", "20", "--tile", "64"]) == 1
    said = capfd.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    with pytest.raises((OSError, ValueError), match=message):
        nlridge.denoise_to_disk(made, tmp_path / "out.zarr", **GIVEN, tile=64)
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


def test_stores_that_claim_more_than_they_hold(tmp_path, monkeypatch):
    """Nothing of them is read: a store is refused by what it stores, and by what the disk can hold."""
    given = {**GIVEN, "out": tmp_path / "out.zarr"}
    empty = zarr.create_array(
        tmp_path / "a.zarr", shape=(10**6, 10**6), chunks=(2048, 2048), dtype="u2"
    )
    with pytest.raises(
        ValueError, match=r"image has shape \(1000000, 1000000\), of which \d+ bytes are stored"
    ):
        nlridge.denoise_to_disk(empty, **given)  # fmt: skip
    chunk = zarr.create_array(
        tmp_path / "b.zarr", shape=(10**6, 10**6), chunks=(10**6, 10**6), dtype="u2"
    )
    with pytest.raises(
        ValueError, match="image has chunks of 1000000000000 pixels; expected at most"
    ):
        nlridge.denoise_to_disk(chunk, **given)  # fmt: skip

    class Claims:
        shape, dtype = (10**7, 10**7), np.dtype(np.uint16)

        def __getitem__(self, index):
            raise AssertionError("something was read")

    with pytest.raises(
        OSError, match=r"800,000 GB are needed to process the image, but .* are free"
    ):
        nlridge.denoise_to_disk(Claims(), **given)  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]


def test_a_result_may_be_empty(tmp_path, monkeypatch):
    """Chunks of zeros are not stored: what holds of an input from elsewhere does not hold of a result."""
    monkeypatch.setattr(limits, "_MAY_BE_EMPTY", 100)
    result = nlridge.denoise_to_disk(np.zeros((90, 80), np.float32), tmp_path / "out.zarr", **GIVEN, tile=64)  # fmt: skip
    assert not result[:].any()
    monkeypatch.setattr(limits, "_PIXELS_PER_BYTE", 1e-9)
    with pytest.raises(ValueError, match="bytes are stored; expected at least one byte"):
        nlridge.denoise_to_disk(result, tmp_path / "again.zarr", **GIVEN, tile=64)


def test_a_store_that_is_mostly_empty_is_cleaned(tmp_path):
    image = np.zeros((300, 200), np.float32)
    image[100:164, 64:128] = noisy(64, 64)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64), config={"write_empty_chunks": False})  # fmt: skip
    assert 0 < sum(path.is_file() for path in (tmp_path / "in.zarr" / "c").rglob("*")) < 9
    result = nlridge.denoise_to_disk(source, tmp_path / "out.zarr", **GIVEN, method="fast", tile=64)
    assert np.array_equal(result[:], nlridge.denoise(image, **GIVEN, method="fast"))


def test_the_noise_of_zarr(tmp_path, capsys):
    image = noisy(300, 200, 3)
    zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(1, 64, 64))
    assert main(["noise", str(tmp_path / "in.zarr"), "--stack-axis", "0", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["frame"], line["frames"]) == (2, 3)
    assert line["noise"]["sigma"] == pytest.approx(nlridge.estimate_noise(image[1]).sigma)


def test_zarr_is_compared_in_parts(tmp_path, capsys, monkeypatch):
    from nlridge.apps.cli import comparing

    monkeypatch.setattr(comparing, "_PIXELS", 100 * 200)
    a, b = noisy(300, 200, 2), noisy(300, 200, 2, seed=1)
    zarr.create_array(str(tmp_path / "a.zarr"), data=a, chunks=(1, 64, 64))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    said = []
    for name in ("a.npy", "a.zarr"):
        names = [str(tmp_path / name), str(tmp_path / "b.npy")]
        assert main(["compare", *names, "--stack-axis", "0", "--json"]) == 0
        said.append({**json.loads(capsys.readouterr().out), "a": None})
    assert said[0] == said[1]
    assert said[0]["rmse"] == pytest.approx(np.sqrt(np.mean((a.astype(float) - b) ** 2)))
    assert said[0]["peak"] == pytest.approx(np.ptp(a))
    from skimage.metrics import structural_similarity

    expected = structural_similarity(
        a, b, channel_axis=0, data_range=np.ptp(a), gaussian_weights=True, use_sample_covariance=False,
        win_size=11, full=False,
    )  # fmt: skip
    assert said[0]["ssim"] == pytest.approx(expected, abs=0.01)
