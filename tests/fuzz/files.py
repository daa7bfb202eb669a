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
from multigrade.tables.files import read_table
from multigrade.training.record import RunRecord
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

from . import judge
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
    made = [Kind(name, partial(mutated_bytes, content), pictures.load) for name, content in _images(folder).items()]
    text = _table_text()
    made.append(Kind("table.csv", partial(mutated_table, text), read_table))
    made += [Kind("table.npz", _mutated_npz, read_table)]
    estimator = _estimator()
    estimator.save(folder / "model.safetensors")
    estimator.model_.save(folder / "grades.safetensors")
    save_spectrum(folder / "spectrum.safetensors", estimator.records_, {"source": "1"})
    readers = {
        "model.safetensors": ("estimator", load_estimator),
        "grades.safetensors": ("model", MultiGrade.load),
        "spectrum.safetensors": ("spectrum", load_spectrum),
    }
    for name, (kind, reader) in readers.items():
        valid = folder / name
        made.append(Kind(name, partial(mutated_bytes, valid.read_bytes()), reader))
        made.append(Kind(name, partial(_rewritten, valid, kind), reader))
    made += _of_checkpoints(folder)
    made += _of_stores(folder)
    return made


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
