"""Data in batches: wherever features are kept, and however a run is cut off, the bits are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import Batches, Plan, Regression, fit_grades, structures
from multigrade.networks import adapters
from multigrade.training import crop_and_flip
from multigrade.training.objectives import Multinomial, accuracy
from multigrade.training.streams import FileRows, Order

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 4)).astype(np.float32)
Y = np.sin(2 * X[:, :1]) + X[:, 1:2]
STRUCTURE = structures.graded(4, [(8,), (8,), (8,)], 1)
PLAN = Plan(30, learning_rate=0.02, batch_size=32, record_every=10)
IN_ORDER = Plan(30, learning_rate=0.02, record_every=10)


class Source:
    """Batches of 32 rows, the last one smaller."""

    def __init__(self, x=X, y=Y, size=32):
        self.x, self.y, self.size = x, y, size

    def __iter__(self):
        for start in range(0, len(self.y), self.size):
            yield self.x[start : start + self.size], self.y[start : start + self.size]


def fit(batches, plan=PLAN, **options):
    return fit_grades(STRUCTURE, batches, None, plan, **options)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.model, other.model)
    assert list(one.records) == list(other.records)


def test_kept_and_recomputed_features_agree_to_the_bit(tmp_path):
    in_memory = fit(Batches((X, Y), keep="memory"))
    assert in_memory.records[0].train_loss[-1] < in_memory.records[0].train_loss[0] / 2
    still = lambda key, x: x  # noqa: E731
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for batches in (
        Batches((X, Y), keep="file", folder=tmp_path),
        Batches((X, Y), keep="device"),
        Batches((X, Y), keep="recompute"),
        Batches((X, Y), transform=still),
        Batches(Source(), num_rows=100),
        Batches(Source(size=7), num_rows=100, keep="file"),
        Batches((mapped, Y)),
    ):
        assert_same(fit(batches), in_memory)
    assert_same(fit_grades(STRUCTURE, mapped, Y, PLAN), in_memory)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize(
    ("batches", "plan"),
    [
        (Batches((X, Y), keep="file"), PLAN),
        (Batches((X, Y), transform=lambda key, x: x + 0.01 * jax.random.normal(key, x.shape)), PLAN),
        (Batches(Source(), num_rows=100, keep="recompute"), IN_ORDER),
    ],
    ids=["file", "transform", "in order"],
)
def test_a_run_that_was_cut_off_goes_on_with_the_same_bits(tmp_path, batches, plan):
    whole = fit(batches, plan)
    for _ in range(2):
        cut = fit(batches, Plan(**{**vars(plan), "time_limit": 1e-6}), checkpoint=tmp_path / "c")
        assert cut.outcome == "time limit"
    assert_same(fit(batches, plan, checkpoint=tmp_path / "c"), whole)


def test_a_pass_sees_every_row_once():
    order = Order(100, 20, seed=3)
    for number in range(2):
        seen = np.concatenate([order.rows(step) for step in range(5 * number, 5 * number + 5)])
        np.testing.assert_array_equal(np.sort(seen), np.arange(100))
    np.testing.assert_array_equal(order.rows(7), Order(100, 20, seed=3).rows(7))
    assert (order.rows(0) != order.rows(5)).any()


def test_rows_in_a_file_are_those_of_the_array(tmp_path):
    array = RANDOM.normal(size=(9, 2, 3))
    np.save(tmp_path / "a.npy", array)
    rows = FileRows.of(np.load(tmp_path / "a.npy", mmap_mode="r"))
    assert isinstance(rows, FileRows)
    for chosen in ([3, 0, 3], slice(2, 8, 3), slice(None)):
        np.testing.assert_array_equal(rows[chosen], array[chosen])


def test_crops_and_mirror_images_are_parts_of_the_picture():
    pictures = jnp.asarray(RANDOM.normal(size=(64, 5, 6, 2)), jnp.float32)
    np.testing.assert_array_equal(crop_and_flip(jax.random.key(0), pictures, padding=0, flips=False), pictures)
    only_flips = np.asarray(crop_and_flip(jax.random.key(0), pictures, padding=0))
    is_flipped = np.all(only_flips == pictures[:, :, ::-1], axis=(1, 2, 3))
    is_same = np.all(only_flips == pictures, axis=(1, 2, 3))
    assert (is_flipped ^ is_same).all()
    assert 10 < is_flipped.sum() < 54
    moved = np.asarray(crop_and_flip(jax.random.key(0), pictures, padding=1, flips=False))
    wide = np.pad(pictures, ((0, 0), (1, 1), (1, 1), (0, 0)))
    cuts = np.stack([wide[:, i : i + 5, j : j + 6] for i in range(3) for j in range(3)])
    assert np.all(cuts == moved, axis=(2, 3, 4)).any(axis=0).all()


def test_labels_and_accuracy_in_batches():
    labels = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    structure = structures.graded(4, [(16,)], 3)
    regression = Regression(loss=Multinomial(smoothing=0.1), metrics={"accuracy": accuracy})
    plan = Plan(150, learning_rate=0.02, batch_size=50, record_every=50)
    result = fit_grades(structure, Batches((X, labels)), None, plan, regression=regression, validation=(X, labels))
    by_hand = np.mean(np.argmax(result.model(X), axis=1) == labels)
    columns = result.records[0].columns
    np.testing.assert_allclose([columns["accuracy"][-1], columns["validation_accuracy"][-1]], by_hand)
    assert by_hand > 0.9
    with pytest.raises(ValueError, match=r"targets must be labels from 0 to 2, or .*; got int32 from 1 to 3"):
        fit_grades(structure, X, labels + 1, plan, regression=regression)
    with pytest.raises(ValueError, match="targets must be labels from 0 to 2"):
        fit_grades(structure, Batches((X, labels + 1)), None, plan, regression=regression)


def test_smoothed_targets_are_a_mixture_with_equal_chances():
    scores, targets = jnp.asarray(RANDOM.normal(size=(5, 3))), jnp.eye(3)[np.array([0, 1, 2, 1, 0])]
    mixed = 0.7 * targets + 0.3 / 3
    expected = -jnp.sum(mixed * jax.nn.log_softmax(scores), axis=1)
    np.testing.assert_allclose(Multinomial(smoothing=0.3)(scores, targets), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("batches", "plan", "message"),
    [
        (lambda: Batches(Source(X[:90], Y[:90]), num_rows=100), PLAN, "num_rows = 100 rows; it ended after 90"),
        (lambda: Batches(Source(), num_rows=90), PLAN, "num_rows = 90 rows; got 96 and more"),
        (lambda: Batches([(X[:32], Y[:32]), (X[:32, :3], Y[:32])], num_rows=64), PLAN, "batch 2 has"),
        (lambda: Batches([(X[:10], Y[:9])], num_rows=10), PLAN, r"batch 1 must have as many .*; got \[9, 10\]"),
        (lambda: Batches([X[:10]], num_rows=10), PLAN, "batch 1 must be a pair"),
        (lambda: Batches(Source()), PLAN, "with num_rows rows in all; got Source and num_rows=None"),
        (lambda: Batches(iter(Source()), num_rows=100), PLAN, "not an iterator; give a list"),
        (lambda: Batches((X, Y[:9])), PLAN, r"equally many rows .*; got \[9, 100\]"),
        (lambda: Batches((X, Y), keep="disk"), PLAN, "keep must be one of auto, device, .*; got 'disk'"),
        (lambda: Batches((X, Y)), IN_ORDER, "batch_size of the plan must be from 1 to the 100 rows; got None"),
        (lambda: Batches(Source(), num_rows=100, keep="recompute"), PLAN, "batch_size must be None"),
    ],
)
def test_bad_batches_are_told_in_one_line(batches, plan, message):
    with pytest.raises(ValueError, match=message):
        fit(batches(), plan)


def test_an_iterable_that_ends_early_while_it_is_taken_as_it_comes():
    with pytest.raises(ValueError, match="num_rows = 5000 rows; it ended after 4096"):
        fit(
            Batches(Source(np.tile(X, (41, 1))[:4096], np.tile(Y, (41, 1))[:4096], 512), 5000, keep="recompute"),
            IN_ORDER,
        )


def test_features_that_are_a_pytree():
    trunk = lambda p, x: {"sum": x["a"] @ p, "kept": x["b"]}  # noqa: E731
    first = adapters.functions(
        lambda key: (jax.random.normal(key, (4, 8)), jnp.zeros((8, 1))),
        lambda p, x: {"a": jnp.tanh(x["a"] @ p), "b": x["b"]}, lambda p, h: h["a"] @ p + h["b"],
    )  # fmt: skip
    second = adapters.functions(
        lambda key: (jax.random.normal(key, (8, 8)), jnp.zeros((8, 1))), trunk, lambda p, h: jnp.tanh(h["sum"]) @ p
    )
    inputs = {"a": X, "b": Y}
    whole = fit_grades((first, second), inputs, 2 * Y, Plan(20, learning_rate=0.02))
    assert whole.model(inputs).shape == (100, 1)
    fed = fit_grades((first, second), Batches((inputs, 2 * Y)), None, PLAN)
    assert fed.records[1].train_loss[-1] < fed.records[0].train_loss[0]
