"""Estimators in files: safetensors and JSON, from which nothing is executed."""

import dataclasses
import os
from typing import Any

import numpy as np

from ..files import read_arrays, telling_damage, write_arrays
from ..model import model_from_arrays, model_to_arrays
from ..training.record import records_from_arrays, records_to_arrays
from .encoding import encoding_from_arrays, encoding_to_arrays

ESTIMATORS: dict[str, type] = {}  # by name
SCALES = ("x_mean_", "x_scale_", "y_mean_", "y_scale_")


def write_estimator(estimator, path: str | os.PathLike) -> None:
    """Write a fitted estimator; ``load_estimator`` reads it."""
    parameters = {name: _plain(name, value) for name, value in estimator.get_params().items()}
    arrays, networks = model_to_arrays(estimator.model_)
    arrays |= {name: getattr(estimator, name) for name in SCALES}
    if hasattr(estimator, "encoding_"):
        arrays |= encoding_to_arrays(estimator.encoding_)
    of_records, ends = records_to_arrays(estimator.records_)
    arrays |= of_records
    description = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        "model": networks,
        "records": [{**end, "seconds": 0.0} for end in ends],  # equal fits have equal files
        "certificates": [{**dataclasses.asdict(c), "outcome": c.outcome.name} for c in estimator.certificates_],
        "features": estimator.n_features_in_,
        "feature_names": list(getattr(estimator, "feature_names_in_", [])),
        "learned": estimator._learned(),
        "fold_losses": list(getattr(estimator, "fold_losses_", ())),
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
    parameters = {name: _from_plain(value) for name, value in description["parameters"].items()}
    estimator = ESTIMATORS[description["class"]](**parameters)
    estimator._validate_params()
    for names in (description["feature_names"], description["target_names"] or []):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{path} is damaged: names of columns must be text; got {names!r}")
    estimator.model_ = model_from_arrays(arrays, description["model"])
    if not all(np.isfinite(arrays[name]).all() for name in SCALES):
        raise ValueError(f"{path} is damaged: means or scales are not finite numbers")
    for name in SCALES:
        setattr(estimator, name, arrays[name])
    estimator.records_ = records_from_arrays(arrays, description["records"])
    estimator.certificates_ = tuple(_certificate(fields) for fields in description.get("certificates", ()))
    estimator.n_features_in_ = description["features"]
    if len(description["feature_names"]) not in (0, estimator.n_features_in_):
        raise ValueError(f"{path} is damaged: it names {len(description['feature_names'])} of its columns")
    if description["feature_names"]:
        estimator.feature_names_in_ = np.array(description["feature_names"], dtype=object)
    estimator.target_names = description["target_names"]
    estimator._seed = description["seed"]
    if "encoding/columns" in arrays:
        estimator.encoding_ = encoding_from_arrays(arrays, estimator.n_features_in_)
        if estimator.encoding_.width != estimator.model_.grades[0].network.widths[0]:
            raise ValueError(f"{path} is damaged: its encoding is not that of its first grade")
        estimator.fold_losses_ = tuple(description["fold_losses"])
    estimator._set_learned(description.get("learned") or {"y_is_flat": description.get("y_is_flat", True)})
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


def _certificate(fields: dict):
    from ..convex import Certificate, Outcome

    return Certificate(**{**fields, "outcome": Outcome[fields["outcome"]]})
