"""`dtype` of `denoise` and `denoise_frames`: a result that can be shown and saved, however the image is given."""

from functools import partial

import numpy as np
import pytest
from images import photograph, with_noise
from PIL import Image

import nlridge
from nlridge import to_dtype

denoise = partial(nlridge.denoise, sigma=20, method="fast")
denoise_to_disk = partial(nlridge.denoise_to_disk, sigma=20, method="fast")
prepare = partial(nlridge.prepare, sigma=20, method="fast")
prepare_mosaic = partial(nlridge.prepare_mosaic, sigma=20, method="fast")
PHOTO = to_dtype(with_noise(photograph(48)), np.uint8)
GRAY = PHOTO[..., 0]
STACK = np.stack([GRAY, GRAY[::-1], GRAY[:, ::-1]])


def expect_same(result, floats):
    """The floats that would be returned by default, rounded and clipped."""
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, np.clip(np.rint(floats), 0, 255))


def test_a_photograph_can_be_shown_and_saved(tmp_path):
    clean = denoise(PHOTO, channel_axis=-1, dtype=PHOTO.dtype)
    expect_same(clean, denoise(PHOTO, channel_axis=-1))
    Image.fromarray(clean).save(tmp_path / "clean.png")
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "clean.png")), clean)


@pytest.mark.parametrize(
    ("image", "arguments"),
    [
        (GRAY, {"sigma": None}),
        (GRAY, {"strength": 0}),
        (STACK, {"stack_axis": 0}),
        (STACK, {"time_axis": 0}),
        (STACK, {"depth_axis": 0}),
        (np.stack([PHOTO, PHOTO[::-1]], 1), {"time_axis": 1, "channel_axis": -1}),
        (GRAY.astype(">u2"), {}),
        (GRAY.astype(np.float64), {}),
    ],
)  # fmt: skip
def test_arrays(image, arguments):
    expect_same(denoise(image, dtype=np.uint8, **arguments), denoise(image, **arguments))


def test_parts_and_raw_images():
    region = np.s_[10:20, 30:40]
    expect_same(prepare(GRAY).denoise(region, dtype=np.uint8), prepare(GRAY).denoise(region))
    raw = prepare_mosaic(GRAY, "RGGB")
    expect_same(raw.denoise(dtype=np.uint8), raw.denoise())


def test_values_are_clipped_to_the_range_of_the_type():
    image = with_noise(np.tile(np.linspace(-50, 300, 48), (48, 1)))
    floats = denoise(image)
    assert floats.min() < 0
    assert floats.max() > 255
    result = denoise(image, dtype="uint8")
    expect_same(result, floats)
    assert (result.min(), result.max()) == (0, 255)
    np.testing.assert_array_equal(denoise(image, dtype=np.int16), np.rint(floats))


def test_other_floats_are_neither_rounded_nor_clipped():
    result = denoise(GRAY, dtype=np.float64)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, denoise(GRAY))


def test_the_type_has_the_byte_order_of_this_machine():
    assert denoise(GRAY, dtype=">u2").dtype == np.dtype("=u2")


@pytest.mark.parametrize("name", ["out.npy", "out.tif", "out.zarr"])
@pytest.mark.parametrize("axis", ["stack_axis", "time_axis"])
def test_arrays_on_disk(name, axis, tmp_path):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    image = STACK.astype(np.uint16)
    floats = denoise(image, data_range=255, **{axis: 0})
    result = denoise_to_disk(image, tmp_path / name, data_range=255, dtype=np.uint8, **{axis: 0})
    expect_same(result[...], floats)


def test_a_part_of_an_array_on_disk(tmp_path):
    np.save(tmp_path / "image.npy", GRAY)
    image = np.load(tmp_path / "image.npy", mmap_mode="r")
    region = np.s_[5:15, 20:30]
    expect_same(prepare(image).denoise(region, dtype=image.dtype), prepare(GRAY).denoise(region))


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["stack_axis", "time_axis"])
def test_dask_arrays_stay_lazy(axis):
    da = pytest.importorskip("dask.array")
    lazy = denoise(da.from_array(STACK, chunks=(1, 32, 48)), dtype=np.uint8, **{axis: 0})
    assert lazy.dtype == np.uint8
    expect_same(lazy.compute(), denoise(STACK, **{axis: 0}))


def test_frames_as_they_arrive():
    frames = list(STACK)
    floats = nlridge.denoise_frames(frames, 20, method="fast")
    results = nlridge.denoise_frames(frames, 20, method="fast", dtype=np.uint8)
    for result, expected in zip(results, floats, strict=True):
        expect_same(result, expected)


@pytest.mark.parametrize("by_name", ["torch", "numpy"])
def test_tensors(by_name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    image = torch.tensor(PHOTO)
    result = denoise(image, channel_axis=-1, dtype=torch.uint8 if by_name == "torch" else np.uint8)
    assert result.dtype == torch.uint8
    expect_same(result.numpy(), denoise(PHOTO, channel_axis=-1))
    assert denoise(image[..., 0], dtype=torch.bfloat16).dtype == torch.bfloat16


def test_integers_have_no_gradient():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    image = torch.tensor(GRAY.astype(np.float32), requires_grad=True)
    with pytest.raises(
        ValueError, match=r"dtype is torch\.uint8; expected a floating-point type for"
    ):
        denoise(image, dtype=torch.uint8)
    result = denoise(image, dtype=torch.float64)
    assert result.dtype == torch.float64
    assert result.requires_grad


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("same", "dtype is 'same'; expected a type of integers or floats, such as numpy.uint8 or image.dtype"),
        (bool, "dtype is <class 'bool'>; expected a type of integers or floats"),
        (complex, "dtype is <class 'complex'>; expected a type of integers or floats"),
    ],
)  # fmt: skip
def test_types_that_pixels_cannot_have(dtype, message):
    for function in (denoise, nlridge.denoise_frames):
        with pytest.raises(TypeError, match=message):
            function(STACK, dtype=dtype)


def test_missing_pixels_are_refused_before_any_work_starts(tmp_path):
    """There is no NaN among integers; masked pixels with a value are returned as they are."""
    holes = GRAY.astype(np.float32)
    holes[3, :5] = np.nan
    message = "image has NaN pixels and dtype is uint8; expected a floating-point type"
    progress = partial(pytest.fail, "work has started")
    for image, arguments in ((holes, {}), (holes[None], {"stack_axis": 0}), (holes[None], {"time_axis": 0})):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            denoise(image, dtype=np.uint8, progress=progress, **arguments)
    with pytest.raises(ValueError, match=message):
        denoise_to_disk(holes, tmp_path / "clean.npy", dtype=np.uint8)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=message):
        next(nlridge.denoise_frames([holes], 20, dtype=np.uint8))
    mask = np.isnan(holes)
    result = denoise(np.where(mask, 7.4, holes), mask=mask, dtype=np.uint8)
    assert (result[mask] == 7).all()
