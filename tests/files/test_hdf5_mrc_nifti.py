"""HDF5, MRC and NIfTI files: which array is read, its axes and scale, and what is refused."""

import gzip

import numpy as np
import pytest
from format_contract import SPACING
from format_examples import denoised, nifti, nifti_metadata, noisy
from PIL import Image

from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, read, write

mrcfile = pytest.importorskip("mrcfile")
nibabel = pytest.importorskip("nibabel")
h5py = pytest.importorskip("h5py")


# HDF5.


def test_one_of_several_arrays_of_an_hdf5_file(tmp_path, capsys):
    pixels = noisy("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["raw/left"], file["raw/right"] = pixels, pixels + 50
        file.attrs["sample"] = "liver"
    sentence = "it holds 2 arrays; expected --dataset with one of /raw/left, /raw/right"
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path / "a.h5")
    after = denoised(tmp_path / "a.h5", "--dataset", "/raw/right", "--sigma", "8")
    with h5py.File(after) as file:
        np.testing.assert_array_equal(file["raw/left"], pixels)
        assert 4 < np.std(file["raw/right"][()] - 50 - pixels) < 9
        assert file.attrs["sample"] == "liver"
    for name in ("/raw", "/nothing"):
        words = ["denoise", str(tmp_path / "a.h5"), "--overwrite", "--dataset", name]
        assert main(words) == 1
        assert f"--dataset is {name}; expected the path of an array" in capsys.readouterr().err
    Image.fromarray(noisy("u1")).save(tmp_path / "a.png")
    assert main(["denoise", str(tmp_path / "a.png"), "--dataset", "x"]) == 1
    assert "--dataset is x; expected none for PNG files" in capsys.readouterr().err


def test_a_crash_of_the_hdf5_library_is_an_error_of_the_file(tmp_path, monkeypatch):
    # A file whose damage makes some version of the library crash would not do so with the next.
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = noisy("f4")
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr("nlridge.files.formats.hdf5._REPLACE", crash)
    with pytest.raises(ValueError, match="its array /image cannot be replaced, it may be damaged"):
        write(tmp_path / "b.h5", read(tmp_path / "a.h5"))
    assert [file.name for file in tmp_path.iterdir()] == ["a.h5"]


def test_axes_of_hdf5_files(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("exported_data", data=noisy("u1", (3, 20, 30, 2)))
        array.attrs["axistags"] = (
            '{"axes": [{"key": "t"}, {"key": "y"}, {"key": "x"}, {"key": "c"}]}'
        )
    assert read(tmp_path / "a.h5").layers[0].axes == "TYXC"
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["data"] = noisy("u1", (3, 20, 30))
    with pytest.raises(ValueError, match=r"it has 3 dimensions.*--stack-axis"):
        read(tmp_path / "b.h5")
    assert read(tmp_path / "b.h5", "QYX").layers[0].axes == "QYX"
    write(tmp_path / "c.h5", Picture("", [Layer(noisy("u1", (3, 20, 30)), "ZYX", SPACING, "µm")]))
    (layer,) = read(tmp_path / "c.h5").layers
    assert (layer.axes, layer.spacing) == ("ZYX", pytest.approx(SPACING))


def test_hdf5_arrays_that_are_elsewhere_or_claim_too_much(tmp_path):
    np.zeros(4000, np.uint8).tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        outside = [(str(tmp_path / "secret.bin"), 0, 4000)]
        file.create_dataset("x", (40, 100), "u1", external=outside)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = h5py.ExternalLink("c.h5", "/x")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = noisy()
    for name in ("a.h5", "b.h5"):
        with pytest.raises(ValueError, match="is stored in another file; expected that file"):
            read(tmp_path / name, dataset="/x")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("x", (10**6, 10**6), "f4", chunks=(100, 100))
    with pytest.raises(ValueError, match="expected no more than is safe to open"):
        read(tmp_path / "d.h5")


# MRC and NIfTI.


def test_mrc_files_of_other_kinds(tmp_path):
    with mrcfile.new(tmp_path / "a.mrc", noisy("f4", (6, 20, 30))) as file:
        file.header.ispg, file.header.mz = 401, 2  # three volumes of two sections
    (layer,) = read(tmp_path / "a.mrc").layers
    assert (layer.axes, layer.pixels.shape) == ("QZYX", (3, 2, 20, 30))
    mrcfile.write(tmp_path / "b.mrc", noisy("f4"))
    assert read(tmp_path / "b.mrc").layers[0].axes == "YX"
    mrcfile.write(tmp_path / "c.mrc", noisy("c8"))
    with pytest.raises(ValueError, match="its mode is 4; expected one of 0, 1, 2, 6, 12"):
        read(tmp_path / "c.mrc")
    content = bytearray((tmp_path / "b.mrc").read_bytes())
    content[8:12] = (10**6).to_bytes(4, "little")
    (tmp_path / "d.mrc").write_bytes(content)
    with pytest.raises(
        ValueError, match="the file is damaged: its header claims 1000000 x 32 x 40"
    ):
        read(tmp_path / "d.mrc")


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_other_byte_order(tmp_path, order):
    pixels = noisy().astype(f"{order}i2")
    header = nibabel.Nifti1Header(endianness=order)
    nibabel.Nifti1Image(pixels.T, np.eye(4), header, dtype=pixels.dtype).to_filename(
        tmp_path / "a.nii"
    )
    picture = read(tmp_path / "a.nii")
    np.testing.assert_array_equal(picture.layers[0].pixels, pixels)
    write(tmp_path / "b.nii", picture)
    assert (tmp_path / "b.nii").read_bytes() == (tmp_path / "a.nii").read_bytes()


def test_scaled_nifti_keeps_its_scale_and_its_affine_to_the_bit(tmp_path):
    nifti(tmp_path / "a.nii.gz", noisy("i2", (3, 32, 40)), "ZYX")
    content = bytearray(gzip.decompress((tmp_path / "a.nii.gz").read_bytes()))
    content[112:120] = np.array([0.5, -7], "<f4").tobytes()  # slope and intercept
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(content))
    assert read(tmp_path / "a.nii.gz").notes == ["pixels are stored values, of which one is 0.5 (scl_slope)"]  # fmt: skip
    after = denoised(tmp_path / "a.nii.gz")
    assert nifti_metadata(after) == nifti_metadata(tmp_path / "a.nii.gz")
    one, other = nibabel.load(tmp_path / "a.nii.gz"), nibabel.load(after)
    np.testing.assert_array_equal(one.affine, other.affine)
    assert 2 < np.std(one.get_fdata() - other.get_fdata()) < 5  # of a sigma of 8, in steps of 0.5


def test_a_nifti_bomb_is_refused_and_a_wrong_checksum_noticed(tmp_path):
    nifti(tmp_path / "a.nii.gz", noisy("u1", (3, 32, 40)), "ZYX")
    content = bytearray(gzip.decompress((tmp_path / "a.nii.gz").read_bytes()))
    content[42:48] = np.array([30_000, 30_000, 30], "<i2").tobytes()
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="expected no more than is safe to open"):
        read(tmp_path / "b.nii.gz")
    packed = bytearray((tmp_path / "a.nii.gz").read_bytes())
    packed[-6] ^= 1
    (tmp_path / "c.nii.gz").write_bytes(packed)
    with pytest.raises(ValueError, match="the file is damaged"):
        read(tmp_path / "c.nii.gz")
