"""What is written is what is read."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from multigrade.files import finite, read_arrays, write_arrays
from multigrade.model import Grade, MultiGrade, network_from_json, network_to_json
from multigrade.networks import ACTIVATIONS, Network
from multigrade.tables.files import numbered, read_table, target_columns, write_predictions
from multigrade.training.checkpoint import describe, fingerprint
from multigrade.training.record import Outcome, RunRecord, names_of, path_of

from .cases import arrays, dear, middle, names, seeds

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["<f4", "<f8", "<i4", "<i8", "|b1", "|u1"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("properties")


@given(names, names)
def test_names_come_back_from_a_path(name, key):
    assert names_of(path_of(name, key)) == (name, key)
    assert path_of(name, key).count("/") == 1


@middle
@given(st.dictionaries(names, st.dictionaries(names, arrays(3), max_size=3), max_size=3), st.sampled_from(Outcome))
def test_a_record_comes_back_from_its_arrays(observations, outcome):
    step = np.arange(3, dtype=np.int32)
    seen = {name: {"step": step, **values} for name, values in observations.items()}
    record = RunRecord({"step": step, "train_loss": step.astype(np.float32)}, seen, outcome, "why", 3, 0.5)
    assert RunRecord.from_arrays(*record.to_arrays()) == record


@given(PLAIN, PLAIN)
def test_settings_have_one_description_if_and_only_if_they_are_equal(one, other):
    same = json.dumps(_typed(one)) == json.dumps(_typed(other))
    assert (describe(one) == describe(other)) == same


def _typed(value):
    """Equal if and only if types and values are; lists and tuples are one kind."""
    if isinstance(value, dict):
        return ["dict", [[_typed(key), _typed(inner)] for key, inner in value.items()]]
    return ["list", *map(_typed, value)] if isinstance(value, list) else [type(value).__name__, repr(value)]


@given(KINDS.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, max_side=3))), seeds)
def test_a_fingerprint_tells_arrays_apart_by_one_bit(array, seed):
    other = np.frombuffer(array.tobytes(), np.uint8).copy()
    if not other.size:
        return
    other[np.random.default_rng(seed).integers(0, other.size)] ^= 1
    changed = np.frombuffer(other.tobytes(), array.dtype).reshape(array.shape)
    assert fingerprint(array) == fingerprint(array.copy())
    assert fingerprint(array) != fingerprint(changed)
    assert fingerprint(array) != fingerprint(array[None])


@dear
@given(st.dictionaries(names, arrays((2, 3), dtype=np.float32, width=32), max_size=3), PLAIN)
def test_arrays_and_description_come_back_from_a_file(folder, given_arrays, description):
    path = folder / "a.safetensors"
    write_arrays(path, "test", given_arrays, {"d": description})
    found, told, _ = read_arrays(path, "test")
    assert json.dumps(told["d"]) == json.dumps(description)
    assert {name: array.tobytes() for name, array in found.items()} == {n: a.tobytes() for n, a in given_arrays.items()}
    before = path.read_bytes()
    write_arrays(path, "test", given_arrays, {"d": description})
    assert path.read_bytes() == before


@given(st.recursive(st.floats() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=6))
def test_what_is_made_finite_is_json(value):
    text = json.dumps(finite({"a": value}), allow_nan=False)
    assert json.loads(text) == finite({"a": value})


HEADERS = [["a", "b"], ["Gr\u00f6\u00dfe", "\u6e29\u5ea6"], ['5" pipe', "x"], ["two\nlines", "a;b"], ["", "'"]]


@dear
@given(arrays((4, 2), bound=1e300), st.sampled_from([".csv", ".npz"]), st.sampled_from(HEADERS))
def test_predictions_come_back_from_a_table(folder, values, suffix, header):
    path = folder / f"table{suffix}"
    write_predictions(path, header, values)
    if suffix == ".npz":
        with np.load(path) as file:
            np.testing.assert_array_equal(file["y"], values)
    else:
        table = read_table(path)
        assert list(table.columns) == header
        np.testing.assert_allclose(table.values, values, rtol=1e-14)


@given(st.lists(names.filter(lambda name: "," not in name and name.strip() == name and name), unique=True, min_size=1))
def test_columns_are_found_by_their_names(columns):
    from multigrade.tables.files import Table

    table = Table(tuple(columns), np.zeros((1, len(columns))))
    assert target_columns(table, ",".join(columns)) == columns
    assert numbered("x", len(columns))[-1] == f"x{len(columns) - 1}"


WIDTHS = st.lists(st.integers(1, 6), min_size=2, max_size=5).map(tuple)


@given(WIDTHS, st.sampled_from(sorted(ACTIVATIONS)), st.floats(0, 3))
def test_networks_come_back_from_json(widths, activation, bias_std):
    network = Network(widths, activation=activation, bias_std=bias_std)
    assert network_from_json(json.loads(json.dumps(network_to_json(network)))) == network


@dear
@given(seeds)
def test_models_come_back_from_a_file_to_the_bit(folder, seed):
    network = Network((2, 3, 1))
    scale = jax.numpy.float32(1 + seed % 7)
    model = MultiGrade((Grade(network, network.init(jax.random.key(seed)), scale),))
    model.save(folder / "m.safetensors")
    again = MultiGrade.load(folder / "m.safetensors")
    x = np.random.default_rng(seed).normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_array_equal(again(x), model(x))
    assert dataclasses.asdict(again.grades[0].network) == dataclasses.asdict(network)
