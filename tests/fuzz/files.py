"""Files of every kind that the commands read: one valid file of each, its mutations, and how it is read."""

import dataclasses
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

from multigrade import MultiGradeRegressor, load_estimator
from multigrade.curvature.tracking import load_spectrum, save_spectrum
from multigrade.files import read_arrays, write_arrays
from multigrade.model import MultiGrade
from multigrade.pictures import files as pictures
from multigrade.tables.files import read_table, write_predictions
from multigrade.training.record import RunRecord
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

from . import judge, structure
from .mutate import mutated_array, mutated_bytes, mutated_json, mutated_table


@dataclasses.dataclass(frozen=True)
class Kind:
    """``make(rng)`` gives the content of a mutated file called ``name``; ``read(path)`` is what a command does."""

    name: str
    make: Callable[[np.random.Generator], bytes]
    read: Callable[[Path], object]
    is_continued: bool = False  # a fit that accepts its checkpoint writes it again


def kinds(folder: Path) -> list[Kind]:
    """Everything that is read; valid files are made in ``folder``."""
    made = []
    for name, content in _images(folder).items():
        sound = {"png": structure.mutated_png, "jpg": structure.mutated_jpeg}.get(name[-3:], structure.mutated_tiff)
        made += [Kind(name, partial(change, content), picture_twice) for change in (mutated_bytes, sound, sound)]
    text = _table_text()
    made += [Kind("table.csv", partial(mutated_table, text), table_twice)]
    made += [Kind("table.csv", structure.mutated_csv, table_twice)] * 2
    made += [Kind("table.npz", make, table_twice) for make in (_mutated_npz, structure.mutated_npz)]
    estimator = _estimator()
    estimator.save(folder / "model.safetensors")
    estimator.model_.save(folder / "grades.safetensors")
    save_spectrum(folder / "spectrum.safetensors", estimator.records_, {"source": "1"})
    readers = {
        "model.safetensors": ("estimator", estimator_twice),
        "grades.safetensors": ("model", model_twice),
        "spectrum.safetensors": ("spectrum", spectrum_twice),
    }
    for name, (kind, reader) in readers.items():
        valid = folder / name
        made.append(Kind(name, partial(mutated_bytes, valid.read_bytes()), reader))
        made += [Kind(name, partial(_rewritten, valid, kind), reader)]
        made += [Kind(name, partial(_other_values, valid, kind), reader)]
    made += _of_checkpoints(folder)
    made += _of_stores(folder)
    return made


# ---- read, written, and read again -----------------------------------------------------------------------------


def picture_twice(path: Path) -> None:
    picture = pictures.load(path)
    again = path.parent / f"again{'.tif' if picture.depth == 32 else '.png'}"
    pictures.save(again, picture)
    back = pictures.load(again)
    for name in ("pixels", "alpha"):
        ours, theirs = getattr(picture, name), getattr(back, name)
        if (ours is None) != (theirs is None) or (ours is not None and not np.array_equal(ours, theirs)):
            raise judge.Differs(f"{name} differ when they are written and read again")


def table_twice(path: Path) -> None:
    table = read_table(path)
    again = path.parent / "again.csv"
    write_predictions(again, list(table.columns), table.values)
    back = read_table(again)
    if back.columns != table.columns or not np.allclose(back.values, table.values, rtol=1e-13, atol=0):
        raise judge.Differs(f"{table.columns} came back as {back.columns}, or other numbers")


def estimator_twice(path: Path) -> None:
    estimator = load_estimator(path)
    first, second = path.parent / "first", path.parent / "second"
    estimator.save(first)
    load_estimator(first).save(second)
    if first.read_bytes() != second.read_bytes():
        raise judge.Differs("an estimator that was read is written otherwise")
    x = np.linspace(-1, 1, 3)[:, None]
    if not np.array_equal(estimator.predict(x), load_estimator(first).predict(x)):
        raise judge.Differs("an estimator predicts otherwise when it is written and read again")


def model_twice(path: Path) -> None:
    model = MultiGrade.load(path)
    model.save(path.parent / "again")
    x = np.linspace(-1, 1, 3, dtype=np.float32)[:, None]
    if model.grades and not np.array_equal(model(x), MultiGrade.load(path.parent / "again")(x), equal_nan=True):
        raise judge.Differs("a model gives other values when it is written and read again")


def spectrum_twice(path: Path) -> None:
    records, description = load_spectrum(path)
    save_spectrum(path.parent / "again", records, description)
    if load_spectrum(path.parent / "again") != (records, description):
        raise judge.Differs("a spectrum is another when it is written and read again")


def run(kind: Kind, folder: Path, rng: np.random.Generator) -> tuple[judge.Outcome, bytes]:
    """One mutated file, read; and its content."""
    content = kind.make(rng)
    path = folder / kind.name
    path.write_bytes(content)
    outcome = judge.read(kind.read, path)
    if path.read_bytes() != content and not (kind.is_continued and not outcome.is_refused):
        outcome = outcome._replace(problem="the file was changed")
    return outcome, content


def _images(folder: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (9, 12), np.uint8)
    colour = rng.integers(0, 256, (9, 12, 3), np.uint8)
    alpha = rng.integers(0, 256, (9, 12, 4), np.uint8)
    deep = rng.integers(0, 65536, (9, 12, 3), np.uint16)
    made: dict[str, bytes] = {}
    for name, pixels, form in (
        ("grey.png", grey, "PNG"), ("colour.png", colour, "PNG"), ("alpha.png", alpha, "PNG"),
        ("deep16.png", deep[..., 0], "PNG"), ("grey.jpg", grey, "JPEG"), ("colour.jpg", colour, "JPEG"),
        ("pillow.tif", colour, "TIFF"),
    ):  # fmt: skip
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, form)
        made[name] = file.getvalue()
    for name, bits in (("palette.png", "P"), ("bits.png", "1")):
        file = io.BytesIO()
        Image.fromarray(grey).convert(bits).save(file, "PNG")
        made[name] = file.getvalue()
    pictures.save(folder / "deep.png", pictures.Picture(deep / 65535, depth=16))
    made["deep.png"] = (folder / "deep.png").read_bytes()
    for name, pixels in (("float.tif", grey.astype(np.float32) / 255), ("deep.tif", deep), ("grey.tiff", grey)):
        file = io.BytesIO()
        tifffile.imwrite(file, pixels, photometric="rgb" if pixels.ndim == 3 else "minisblack")
        made[name] = file.getvalue()
    return made


def _table_text() -> str:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(12, 3))
    return "a,b,y\n" + "\n".join(",".join(f"{cell:.4g}" for cell in row) for row in rows) + "\n"


def _mutated_npz(rng: np.random.Generator) -> bytes:
    arrays = {"X": rng.normal(size=(6, 2)), "y": rng.normal(size=6)}
    name = str(rng.choice(["X", "y"]))
    match rng.integers(0, 4):
        case 0:
            arrays.pop(name)
        case 1:
            arrays["Z"] = arrays.pop(name)
        case _:
            arrays[name] = mutated_array(arrays[name], rng)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return mutated_bytes(file.getvalue(), rng) if rng.random() < 0.4 else file.getvalue()


def _estimator() -> MultiGradeRegressor:
    x = np.linspace(-1, 1, 20)[:, None]
    model = MultiGradeRegressor(2, (3,), solver="muon", max_iter=3, random_state=0)
    return model.fit(x, np.abs(x[:, 0]))


def _rewritten(valid: Path, kind: str, rng: np.random.Generator) -> bytes:
    """A file with a sound checksum whose arrays or description are not what they should be."""
    arrays, description, _ = read_arrays(valid, kind)
    if rng.random() < 0.5:
        description = mutated_json(description, rng)
    else:
        name = sorted(arrays)[int(rng.integers(0, len(arrays)))]
        changed = mutated_array(arrays[name], rng)
        arrays = {**arrays, name: changed} if changed.dtype.kind in "biuf" else {**arrays, name: np.zeros(1)}
        if rng.random() < 0.3:
            del arrays[name]
    target = valid.with_name("rewritten.safetensors")
    try:
        write_arrays(target, kind, arrays, description if isinstance(description, dict) else {})
    except Exception:  # kinds of numbers that safetensors has not
        return mutated_bytes(valid.read_bytes(), rng)
    return target.read_bytes()


def _other_values(valid: Path, kind: str, rng: np.random.Generator) -> bytes:
    """Arrays of the same shapes with other numbers: a sound file of another fit."""
    arrays, description, _ = read_arrays(valid, kind)
    name = sorted(arrays)[int(rng.integers(0, len(arrays)))]
    if arrays[name].dtype.kind == "f":
        factor = rng.choice([0.5, -1.0, 1e-30, 1e10, 1e38], p=[0.4, 0.3, 0.1, 0.1, 0.1])
        with np.errstate(over="ignore"):
            arrays[name] = (arrays[name] * factor * rng.random(arrays[name].shape)).astype(arrays[name].dtype)
    target = valid.with_name("rewritten.safetensors")
    write_arrays(target, kind, arrays, description)
    return target.read_bytes()


def _of_checkpoints(folder: Path) -> list[Kind]:
    """A checkpoint of a fit, and the fit that it belongs to."""
    x = np.linspace(-1, 1, 20)[:, None]
    options = {"n_grades": 2, "hidden_layer_sizes": (3,), "solver": "muon", "max_iter": 3, "random_state": 0}

    def resume(path: Path) -> None:
        MultiGradeRegressor(**options).fit(x, np.abs(x[:, 0]), checkpoint=path)

    path = folder / "valid.checkpoint"
    resume(path)
    content = path.read_bytes()
    return [
        Kind("fit.checkpoint", partial(mutated_bytes, content), resume, is_continued=True),
        Kind("fit.checkpoint", partial(_rewritten, path, "checkpoint"), resume, is_continued=True),
    ]


def _of_stores(folder: Path) -> list[Kind]:
    """A store with one result, whose files are damaged one at a time."""
    place = folder / "store"
    store = Store(place)
    job = Job("job", "stranger", {"task": "regress", "image": "own"})
    step = np.arange(3)
    record = RunRecord({"step": step, "train_loss": np.array([3.0, 2.0, 1.0], np.float32)}, num_steps=3)
    store.save(job, Result({"test_psnr": 20.0}, (record,), {}, {"result": np.eye(8)}), {"seconds": 0.0})
    made = []
    for path in sorted((place / job.key).iterdir()):
        valid = path.read_bytes()
        makers = [partial(mutated_bytes, valid)]
        if path.suffix == ".json":
            makers.append(partial(_other_json, valid))
        made += [Kind(path.name, maker, partial(_read_store, place, job.key, path, valid)) for maker in makers]
    return made


def _other_json(valid: bytes, rng: np.random.Generator) -> bytes:
    return json.dumps(mutated_json(json.loads(valid), rng)).encode()


def _read_store(place: Path, key: str, path: Path, valid: bytes, mutated: Path) -> None:
    path.write_bytes(mutated.read_bytes())
    try:
        store = Store(place, create=False)
        for found in list(store.keys()):
            store.load(found)
    finally:
        path.write_bytes(valid)
