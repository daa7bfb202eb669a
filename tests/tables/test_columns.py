"""Tables as they come: what each kind of column is read as."""

import datetime

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from multigrade import MultiGradeClassifier, MultiGradeRegressor, load_estimator
from multigrade.tables.columns import learn_columns

RANDOM = np.random.default_rng(0)
SMALL = {"n_grades": 1, "random_state": 0}
COLUMNS = {
    "size": [1.5, None, 2.5, 0.5],
    "count": [1, 2, None, 3],
    "yes": [True, False, None, True],
    "kind": ["b", "a", None, "b"],
    "day": [datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 1, 12), None, datetime.datetime(1969, 12, 31)],
}
READ = np.array([[1.5, 1, 1, 1, 1], [np.nan, 2, 0, 0, 0.5], [2.5, np.nan, np.nan, np.nan, np.nan], [0.5, 3, 1, 1, -1]])


def frames():
    plain = pandas.DataFrame(COLUMNS)
    nullable = plain.astype({"count": "Int64", "yes": "boolean", "kind": "category"})
    cells = np.array([*zip(*COLUMNS.values(), strict=True)], object)
    return {"pandas": plain, "nullable": nullable, "polars": polars.DataFrame(COLUMNS), "array": cells}


@pytest.mark.parametrize("name", ["pandas", "nullable", "polars", "array"])
def test_every_kind_of_table_is_read_alike(name):
    table = frames()[name]
    columns, read = learn_columns(table, "auto", list(COLUMNS))
    np.testing.assert_array_equal(read, READ)
    assert columns.levels == (None, None, None, ("a", "b"), None)
    np.testing.assert_array_equal(columns.read(table[::-1]), READ[::-1])


def test_text_that_is_all_dates_is_dates():
    _, read = learn_columns(np.array([["1970-01-02"], [None], ["1969-12-31T12:00"]], object), "auto", None)
    np.testing.assert_array_equal(read, [[1.0], [np.nan], [-0.5]])
    columns, _ = learn_columns(np.array([["1970-01-02"], ["1970-13-02"]], object), "auto", None)
    assert columns.levels == (("1970-01-02", "1970-13-02"),)


def table(num: int = 120):
    frame = pandas.DataFrame(
        {
            "size": RANDOM.normal(size=num),
            "kind": RANDOM.choice(["red", "green", "blue"], num),
            "zone": pandas.Categorical(RANDOM.integers(0, 4, num)),
            "when": pandas.date_range("2026-01-01", periods=num, freq="h"),
            "is_new": RANDOM.random(num) < 0.5,
        }
    )
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "kind"] = None
    return frame, (frame.kind == "red") * 2.0 + frame["size"].fillna(3) + (frame.zone == 2)


def test_a_table_as_it_comes_is_fitted_kept_in_a_file_and_takes_levels_that_are_new(tmp_path):
    frame, y = table()
    model = MultiGradeRegressor(**SMALL).fit(frame, y)
    assert model.score(frame, y) > 0.99
    model.save(tmp_path / "m.safetensors")
    loaded = load_estimator(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    new = frame.head(3).assign(kind="violet", zone=9)
    assert np.isfinite(loaded.predict(new)).all()
    with pytest.raises(ValueError, match="column 'size' must hold numbers, as in the training rows; got 'big'"):
        loaded.predict(frame.head(2).assign(size="big"))


def test_columns_of_numbers_are_categories_where_the_user_says_so():
    X = np.column_stack([RANDOM.permutation(np.arange(120) % 3), RANDOM.normal(size=120)])
    y = np.array([0.0, 5.0, 1.0])[X[:, 0].astype(int)]
    frame = pandas.DataFrame(X, columns=["zone", "x"])
    told = [
        MultiGradeRegressor(**SMALL, categorical_features=by).fit(frame, y) for by in (["zone"], [0], [True, False])
    ]
    assert told[0].columns_.levels == (("0", "1", "2"), None)
    for model in told[1:]:
        np.testing.assert_array_equal(model.predict(frame), told[0].predict(frame))
    with pytest.raises(ValueError, match=r"categorical_features must name columns of the table.*; got 'place'"):
        MultiGradeRegressor(categorical_features=["place"]).fit(frame, y)


def test_sparse_tables_are_read_as_full_ones_up_to_a_size():
    X = scipy.sparse.random(60, 5, 0.5, random_state=0, format="csr")
    y = np.asarray(X.sum(axis=1)).ravel()
    model = MultiGradeRegressor(**SMALL).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.predict(X.toarray()))
    words = ["good day", "bad day", "good night", "bad night"] * 8
    pipeline = make_pipeline(TfidfVectorizer(), MultiGradeClassifier(**SMALL)).fit(words, [1, 0, 1, 0] * 8)
    assert pipeline.score(words, [1, 0, 1, 0] * 8) == 1
    with pytest.raises(ValueError, match="X is sparse, and read as a full table of at most 20,000,000 cells"):
        model.fit(scipy.sparse.csr_matrix((10**4, 10**4)), np.ones(10**4))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "X must be a table of rows and columns: an array or a frame; got NoneType"),
        ({"a": [1, 2]}, "X must be a table of rows and columns: an array or a frame; got dict"),
        (pandas.DataFrame({"a": [1.0, np.inf]}), "contains infinity: column 'a', row 1"),
        (pandas.DataFrame({"a": [1.0, 1e200]}), "at most about 1e150 in size; got 1e.200 in column 'a'"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(X, message):
    with pytest.raises(ValueError, match=message):
        MultiGradeRegressor().fit(X, [1.0, 2.0])
