"""Default estimators on tables: R2, accuracy and log loss on held-out rows, time, average rank, how often best.

    python -m benchmarks.tables                              # everything that is not in the results file yet
    python -m benchmarks.tables --methods MultiGrade,ridge   # some methods only; the tables show all that was run
    python -m benchmarks.tables --again MultiGrade           # forget the results of a method and run it again

Every method runs with its defaults and seed 0 on three fixed splits of every set. Seconds are those of the processor,
so that other work on the machine does not count. Networks, support vectors and linear models see standardised columns
(and targets), categories as 0 and 1; trees see the columns as they are and are told which hold categories where they
can be. MultiGrade sees what the networks see, without standardisation: it does its own. LightGBM and RealMLP (of
pytabkit) take part where they are installed; since a results file is shared, they may run in an environment of their
own.

The folder of tables holds NAME.npz (regression) and classify_NAME.npz with arrays X, y, test_mask (rows, splits) and
perhaps categorical (columns,). Without it (``--folder none``) the sets that scikit-learn ships or makes are used.
"""

import argparse
import importlib.util
import itertools
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "tables"
NUM_SPLITS = 3
MEASURES = {"regression": ("R2",), "classification": ("accuracy", "log loss")}


class Set(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    test_mask: np.ndarray  # (rows, splits)
    categorical: np.ndarray  # (columns,)

    @property
    def kind(self) -> str:
        return "classification" if np.issubdtype(self.y.dtype, np.integer) else "regression"


# The sets.


def load_sets(folder: Path) -> list[Set]:
    """The sets of a folder; those of scikit-learn, with random splits, if there are none."""
    files = sorted(folder.glob("*.npz"))
    if not files:
        print(f"there are no tables in {folder}: the sets that scikit-learn ships or makes instead")
        return [_split(name, *make()) for name, make in _shipped().items()]
    return [_read(path) for path in files]


def _read(path: Path) -> Set:
    with np.load(path, allow_pickle=False) as file:
        X, y, mask = np.asarray(file["X"], float), file["y"], file["test_mask"]
        categorical = file["categorical"] if "categorical" in file.files else np.zeros(X.shape[1], bool)
    is_classification = path.stem.startswith("classify_")
    y = y.astype(int if is_classification else float)
    return Set(path.stem.removeprefix("classify_"), X, y, mask, np.asarray(categorical, bool))


def _shipped() -> dict[str, Callable]:
    """Tables that come with scikit-learn, and some that it makes: noise, idle columns, flipped and rare classes."""
    from sklearn import datasets

    sets = {name: getattr(datasets, f"load_{name}") for name in ("breast_cancer", "digits", "iris", "wine")}
    sets = {name: partial(load, return_X_y=True) for name, load in sets.items()}
    classes = partial(datasets.make_classification, random_state=0)
    return {
        "diabetes": partial(datasets.load_diabetes, return_X_y=True),
        "friedman1": partial(datasets.make_friedman1, 400, noise=1.0, random_state=0),
        "friedman2": partial(datasets.make_friedman2, 400, noise=50.0, random_state=0),
        "friedman3": partial(datasets.make_friedman3, 400, noise=0.1, random_state=0),
        "idle columns": partial(datasets.make_regression, 200, 100, n_informative=10, noise=10, random_state=0),
        "sparse": partial(datasets.make_sparse_uncorrelated, 300, random_state=0),
        **sets,
        "moons": partial(datasets.make_moons, 300, noise=0.25, random_state=0),
        "circles": partial(datasets.make_circles, 300, noise=0.15, factor=0.6, random_state=0),
        "quantiles": partial(datasets.make_gaussian_quantiles, n_samples=600, n_features=5, random_state=0),
        "flipped classes": partial(classes, 500, 50, n_informative=5, flip_y=0.1),
        "rare class": partial(classes, 2000, 10, n_informative=5, weights=[0.98], flip_y=0),
        "20 classes": partial(classes, 800, 20, n_informative=15, n_classes=20, n_clusters_per_class=1, class_sep=2),
    }


def _split(name: str, X: np.ndarray, y: np.ndarray) -> Set:
    """A set with random splits; diabetes has whole numbers as targets."""
    rows = np.random.default_rng(0).random((len(X), NUM_SPLITS))
    share = 0.2 if len(X) < 500 else 0.1
    mask = rows < np.quantile(rows, share, axis=0)
    is_classes = np.issubdtype(y.dtype, np.integer) and name != "diabetes"
    return Set(name, X, y.astype(int if is_classes else float), mask, np.zeros(X.shape[1], bool))


# The methods: estimators by kind of set, from the mask of categorical columns.


def _encoded(estimator, categorical, *, is_scaled: bool = True, is_regression: bool):
    """What networks see: categories as 0 and 1, the rest standardised, the targets of regression too."""
    from sklearn.compose import TransformedTargetRegressor, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer(
        (encoder, categorical), remainder=StandardScaler() if is_scaled else "passthrough"
    )
    pipeline = make_pipeline(columns, estimator)
    if is_regression and is_scaled:
        return TransformedTargetRegressor(pipeline, transformer=StandardScaler())
    return pipeline


def _linear(kind, categorical):
    from sklearn.linear_model import LogisticRegression, Ridge

    is_regression = kind == "regression"
    return _encoded(Ridge() if is_regression else LogisticRegression(), categorical, is_regression=is_regression)


def _mlp(kind, categorical, **options):
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    make = MLPRegressor if kind == "regression" else MLPClassifier
    return _encoded(make(random_state=0, **options), categorical, is_regression=kind == "regression")


def _svm(kind, categorical):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC, SVR

    machine = SVR() if kind == "regression" else CalibratedClassifierCV(SVC(), ensemble=False)
    return _encoded(machine, categorical, is_regression=kind == "regression")


def _trees(name: str) -> Callable:
    def make(kind, categorical):
        from sklearn import ensemble

        options = {"categorical_features": categorical} if name == "HistGradientBoosting" else {}
        suffix = "Regressor" if kind == "regression" else "Classifier"
        return getattr(ensemble, name + suffix)(random_state=0, **options)

    return make


def _lightgbm(kind, categorical):
    import lightgbm

    make = lightgbm.LGBMRegressor if kind == "regression" else lightgbm.LGBMClassifier
    return make(random_state=0, n_jobs=1, verbose=-1, categorical_feature=list(map(int, np.flatnonzero(categorical))))


def _realmlp(kind, categorical):
    import pytabkit

    make = pytabkit.RealMLP_TD_Regressor if kind == "regression" else pytabkit.RealMLP_TD_Classifier
    estimator = make(random_state=0, device="cpu", n_threads=1)
    estimator.fit = partial(estimator.fit, cat_indicator=list(categorical))
    return estimator


def _catboost(kind, categorical):
    import catboost
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    make = catboost.CatBoostRegressor if kind == "regression" else catboost.CatBoostClassifier
    chosen = list(map(int, np.flatnonzero(categorical)))
    options = {"random_seed": 0, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    model = make(cat_features=chosen or None, **options)
    return make_pipeline(FunctionTransformer(_with_names_of_levels, kw_args={"categorical": chosen}), model)


def _with_names_of_levels(X, categorical):
    """CatBoost takes levels as text."""
    cells = X.astype(object)
    cells[:, categorical] = X[:, categorical].astype(str)
    return cells


def _multigrade(kind, categorical, name: str = "MultiGrade"):
    from sklearn.pipeline import make_pipeline

    import multigrade

    make = getattr(multigrade, name + ("Regressor" if kind == "regression" else "Classifier"))
    told = {"categorical_features": categorical.astype(bool)} if categorical.any() else {}
    return make_pipeline("passthrough", make(random_state=0, **told))


METHODS: dict[str, Callable[[str, np.ndarray], Any]] = {
    "linear": _linear,
    "MLP": _mlp,
    "MLP, early": lambda kind, categorical: _mlp(kind, categorical, early_stopping=True),
    "SVM": _svm,
    "forest": _trees("RandomForest"),
    "extra trees": _trees("ExtraTrees"),
    "hist. boosting": _trees("HistGradientBoosting"),
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "RealMLP": _realmlp,
    "MultiGrade": _multigrade,
}
NEEDS = {"LightGBM": "lightgbm", "CatBoost": "catboost", "RealMLP": "pytabkit", "MultiGrade": "multigrade"}


# Runs and their file.


def run(data: Set, split: int, method: str) -> dict:
    """Fit to the training rows of a split and score the test rows."""
    from sklearn.metrics import accuracy_score, log_loss, r2_score

    test = data.test_mask[:, split]
    estimator = METHODS[method](data.kind, data.categorical)
    started = time.process_time()
    estimator.fit(data.X[~test], data.y[~test])
    fitted = time.process_time()
    X, y = data.X[test], data.y[test]
    predicted = estimator.predict(X)
    if data.kind == "regression":
        scores = {"R2": r2_score(y, predicted)}
    else:
        chances = np.zeros((len(y), data.y.max() + 1))
        chances[:, estimator.classes_] = estimator.predict_proba(X)
        loss = log_loss(y, chances, labels=np.arange(chances.shape[1]))
        scores = {"accuracy": accuracy_score(y, predicted), "log loss": loss}
    if method == "MultiGrade":
        scores["stages"] = _staged_scores(estimator, X, y)
        scores["fold losses"] = list(estimator[-1].fold_losses_)
    return {
        "set": data.name, "kind": data.kind, "split": split, "method": method, **scores,
        "seconds": fitted - started, "predict seconds": time.process_time() - fitted,
    }  # fmt: skip


def _staged_scores(pipeline, X, y) -> list[float]:
    """R2 or accuracy after each grade."""
    from sklearn.metrics import accuracy_score, r2_score

    measure = accuracy_score if hasattr(pipeline, "classes_") else r2_score
    return [float(measure(y, stage)) for stage in pipeline[-1].staged_predict(pipeline[:-1].transform(X))]


def read_results(path: Path) -> dict[tuple, dict]:
    lines = path.read_text().splitlines() if path.is_file() else []
    rows = [json.loads(line) for line in lines if line.strip()]
    return {(row["kind"], row["set"], row["split"], row["method"]): row for row in rows}


def run_missing(sets: list[Set], methods: list[str], path: Path, num_splits: int = NUM_SPLITS) -> dict[tuple, dict]:
    """Run what the file lacks, a split of all sets after the other, small sets first; write every result at once."""
    results = read_results(path)
    by_size = sorted(sets, key=lambda data: data.X.size)
    for split, method in itertools.product(range(num_splits), methods):
        for data in by_size:
            if (data.kind, data.name, split, method) in results:
                continue
            row = run(data, split, method)
            results[data.kind, data.name, split, method] = row
            with open(path, "a") as file:
                file.write(json.dumps(row) + "\n")
            scores = ", ".join(f"{name} {row[name]:.4f}" for name in MEASURES[data.kind])
            print(f"{method:16} {data.name:16} split {split}: {scores} ({row['seconds']:.1f} s)", flush=True)
    return results


# The tables.


def print_tables(sets: list[Set], results: dict[tuple, dict], num_splits: int = NUM_SPLITS) -> None:
    """The tables of the methods that have run on every set, over the splits that all of them have run on."""
    for kind, measures in MEASURES.items():
        chosen = [data for data in sets if data.kind == kind]
        splits = {m: {d.name: _splits(results, kind, d, m, num_splits) for d in chosen} for m in METHODS}
        complete = [m for m in METHODS if all(splits[m].values())]
        if not chosen or not complete:
            continue
        means = {}
        for data in chosen:
            common = set.intersection(*(splits[method][data.name] for method in complete))
            for measure, method in itertools.product((*measures, "seconds"), complete):
                values = [results[kind, data.name, split, method][measure] for split in common]
                means[measure, data.name, method] = np.mean(values) if values else np.nan
            if len(common) < num_splits:
                print(f"{data.name}: {len(common)} of {num_splits} splits, as not all methods have run on the others")
        for measure in (*measures, "seconds"):
            print_table(kind, measure, chosen, complete, means)


def print_stages(results: dict[tuple, dict]) -> None:
    """What each grade of MultiGrade adds on the first split; a grade that is not there was not added."""
    rows = {(k, name): r["stages"] for (k, name, split, _), r in results.items() if "stages" in r and split == 0}
    if rows:
        print("\n**R2 or accuracy after each grade, first split**\n\n| | grade 1 (linear) | grade 2 | grade 3 |")
        print("|---|---|---|---|")
    for (kind, name), stages in sorted(rows.items(), reverse=True):
        cells = [f"{stage:.3f}" for stage in stages] + [""] * (3 - len(stages))
        print(f"| {name} ({kind}) | " + " | ".join(cells) + " |")


def _splits(results: dict[tuple, dict], kind: str, data: Set, method: str, num_splits: int) -> set[int]:
    return {split for split in range(num_splits) if (kind, data.name, split, method) in results}


def print_table(kind: str, measure: str, sets: list[Set], methods: list[str], means: dict[tuple, float]) -> None:
    """One row a set: the mean over splits; below the mean (R2 clipped at 0), the average rank and how often best."""
    values = np.array([[means[measure, d.name, m] for m in methods] for d in sets])
    names = [f"{d.name} ({len(d.X)} x {d.X.shape[1]})" for d in sets]
    print(f"\n**{kind}: {measure}**\n\n| | " + " | ".join(methods) + " |")
    print("|---" * (1 + len(methods)) + "|")
    digits = 1 if measure == "seconds" else 3
    ranks = _ranks(values if measure in ("seconds", "log loss") else -values)
    for name, row, rank in zip(names, values, ranks, strict=True):
        best = np.isclose(rank, rank.min())
        cells = [f"**{v:.{digits}f}**" if b else f"{v:.{digits}f}" for v, b in zip(row, best, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    mean = np.mean(np.maximum(values, 0) if measure == "R2" else values, axis=0)
    summary = {"mean, clipped at 0" if measure == "R2" else "mean": mean}
    if measure != "seconds":
        summary |= {"average rank": ranks.mean(0), "best, of all": (ranks == ranks.min(1, keepdims=True)).sum(0)}
    if measure == "R2" and {"linear", "MLP"} <= set(methods):
        plain = values[:, [methods.index("linear"), methods.index("MLP")]].max(axis=1, keepdims=True)
        summary["furthest below linear or MLP"] = np.maximum(plain - values, 0).max(axis=0)
    for name, row in summary.items():
        print(f"| *{name}* | " + " | ".join(f"{v:.{0 if 'best' in name else digits}f}" for v in row) + " |")


def _ranks(costs: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return rankdata(np.round(costs, 4), axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the tables")
    parser.add_argument("--results", type=Path, default=Path("tables-results.jsonl"), help="where results are kept")
    parser.add_argument("--methods", default=",".join(METHODS).replace("MLP, early", "MLP early"))
    parser.add_argument("--again", default="", help="methods whose results are forgotten first")
    parser.add_argument("--sets", default="", help="some sets only")
    parser.add_argument("--splits", type=int, default=NUM_SPLITS, help="how many of the splits")
    options = parser.parse_args()
    methods = [name.replace("MLP early", "MLP, early") for name in options.methods.split(",") if name]
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        parser.error(f"--methods must be among {', '.join(METHODS)}; got {unknown[0]!r}")
    missing = [name for name in methods if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None]
    for name in missing:
        print(f"{name} is left out: {NEEDS[name]} is not installed")
    if options.again:
        kept = [row for row in read_results(options.results).values() if row["method"] not in options.again.split(",")]
        options.results.write_text("".join(json.dumps(row) + "\n" for row in kept))
    sets = [d for d in load_sets(options.folder) if not options.sets or d.name in options.sets.split(",")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = run_missing(sets, [name for name in methods if name not in missing], options.results, options.splits)
    print_tables(sets, results, options.splits)
    print_stages(results)


if __name__ == "__main__":
    main()
