"""Estimators in files: safetensors and JSON, from which nothing is executed."""

import os
from typing import Any

import numpy as np

from ..files import read_arrays, telling_damage, write_arrays
from .columns import Columns
from .encoding import encoding_from_arrays, encoding_to_arrays
from .losses import LOSSES
from .predictor import grades_from_arrays, grades_to_arrays

ESTIMATORS: dict[str, type] = {}  # by name
SCALES = ("x_mean_", "x_scale_", "y_mean_", "y_scale_")


def write_estimator(estimator, path: str | os.PathLike) -> None:
    """Write a fitted estimator; ``load_estimator`` reads it. Equal fits give equal bytes: no times are written."""
    parameters = {name: _plain(name, value) for name, value in estimator.get_params().items()}
    arrays = grades_to_arrays(estimator.grades_)
    arrays |= {name: getattr(estimator, name) for name in SCALES}
    if estimator.encoding_ is not None:
        arrays |= encoding_to_arrays(estimator.encoding_)
    if estimator._left_out is not None:
        arrays["left_out"] = estimator._left_out
    of_records, ends = estimator._records
    arrays |= of_records
    description = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        "model": [grade.network for grade in estimator.grades_],
        "records": [{**end, "seconds": 0.0} for end in ends],
        "certificates": estimator._certificates,
        "features": estimator.n_features_in_,
        "columns": {"names": estimator.columns_.names, "levels": estimator.columns_.levels},
        "feature_names": list(getattr(estimator, "feature_names_in_", [])),
        "loss": {"name": estimator.loss_.name, "parameter": estimator.loss_.parameter},
        "learned": estimator._learned(),
        "fold_losses": list(estimator.fold_losses_),
        "target_names": estimator.target_names,
        "seed": estimator._seed,
    }
    write_arrays(path, "estimator", arrays, description)


def load_estimator(path: str | os.PathLike) -> Any:
    """Read what an estimator's ``save`` wrote.

    Parameters
    ----------
    path : the file

    Returns
    -------
    estimator
        Fitted, of the class that wrote it.
    """
    arrays, description, _ = read_arrays(path, "estimator")
    with telling_damage(path, "estimator"):
        return _from_file(path, arrays, description)


def _from_file(path: str | os.PathLike, arrays: dict[str, np.ndarray], description: dict) -> Any:
    if description.get("class") not in ESTIMATORS:
        raise ValueError(f"{path} holds an unknown estimator {description.get('class')!r}")
    if "columns" not in description:
        raise ValueError(f"{path} was written by version 0.1 or earlier, whose estimators are read no more; fit again")
    parameters = {name: _from_plain(value) for name, value in description["parameters"].items()}
    estimator = ESTIMATORS[description["class"]](**parameters)
    estimator._validate_params()
    for names in (description["feature_names"], description["target_names"] or [], description["columns"]["names"]):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{path} is damaged: names of columns must be text; got {names!r}")
    estimator.grades_ = grades_from_arrays(arrays, description["model"])
    if not estimator.grades_ or not all(np.isfinite(arrays[name]).all() for name in SCALES):
        raise ValueError(f"{path} is damaged: it has no grade, or means or scales that are not finite numbers")
    for name in SCALES:
        shape = arrays[name].shape
        if len(shape) != 1 or not shape[0] or shape != arrays[name.replace("scale", "mean")].shape:
            raise ValueError(f"{path} is damaged: {name} must be a number for each column; got shape {shape}")
        setattr(estimator, name, arrays[name])
    estimator._records = {n: a for n, a in arrays.items() if n.startswith("record")}, description["records"]
    if not all(isinstance(end["num_steps"], int) for end in description["records"]):
        raise ValueError(f"{path} is damaged: numbers of steps are not integers")
    estimator._certificates = description["certificates"]
    estimator.n_features_in_ = num = description["features"]
    names, levels = description["columns"]["names"], description["columns"]["levels"]
    if not len(names) == len(levels) == num:
        raise ValueError(f"{path} is damaged: it describes {len(names)} and {len(levels)} columns of {num}")
    estimator.columns_ = Columns(tuple(names), tuple(None if of is None else tuple(of) for of in levels))
    if len(description["feature_names"]) not in (0, num):
        raise ValueError(f"{path} is damaged: it names {len(description['feature_names'])} of its columns")
    if description["feature_names"]:
        estimator.feature_names_in_ = np.array(description["feature_names"], dtype=object)
    loss = description["loss"]
    estimator.loss_ = LOSSES[loss["name"]](tuple(float(part) for part in loss["parameter"]))
    estimator.target_names = description["target_names"]
    estimator._seed = description["seed"]
    estimator.encoding_ = encoding_from_arrays(arrays, num) if "encoding/columns" in arrays else None
    width = num if estimator.encoding_ is None else estimator.encoding_.width
    first = estimator.grades_[0]
    if width != first.arrays[0].shape[-2] and first.network["type"] not in ("SineNetwork", "LayerNetwork"):
        raise ValueError(f"{path} is damaged: its columns are not those of its first grade")
    estimator.fold_losses_ = tuple(description["fold_losses"])
    num_outputs = len(estimator.y_mean_)
    estimator._left_out = left_out = arrays.get("left_out")
    if left_out is not None and not (left_out.ndim == 2 and len(left_out) and np.isfinite(left_out).all()):
        raise ValueError(f"{path} is damaged: its rows left out are not finite numbers")
    if estimator.loss_.name in ("quantile", "huber") and not estimator.loss_.parameter:
        raise ValueError(f"{path} is damaged: its loss {estimator.loss_.name} lacks its parameter")
    for index, grade in enumerate(estimator.grades_):
        before = estimator.grades_[index - 1].num_features if index else grade.num_inputs
        is_alike = grade.num_members == first.num_members and grade.num_outputs == num_outputs
        if not (is_alike and before == grade.num_inputs):
            raise ValueError(f"{path} is damaged: grade {index + 1} does not fit those before it")
    for name, size in (("x_mean_", num), ("x_scale_", num), ("y_scale_", num_outputs)):
        if getattr(estimator, name).shape != (size,):
            raise ValueError(f"{path} is damaged: {name} must have shape {(size,)}")
    estimator._set_learned(description["learned"])
    return estimator


def _plain(name: str, value):
    """A parameter as JSON holds it: NumPy's numbers and arrays as Python's numbers and lists, tuples named as such."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        parts = [_plain(name, part) for part in value]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise ValueError(f"only plain values can be saved; {name} is {value!r}")
    return value


def _from_plain(value):
    if isinstance(value, dict):
        return tuple(map(_from_plain, value["tuple"]))
    return list(map(_from_plain, value)) if isinstance(value, list) else value


def certificate_from(fields: dict):
    """The certificate that a fit or a file keeps as plain values."""
    from ..convex import Certificate, Outcome

    return Certificate(**{**fields, "outcome": Outcome[fields["outcome"]]})
