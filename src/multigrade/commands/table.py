"""``multigrade fit`` and ``multigrade predict``: tables in, model and predictions out."""

import dataclasses
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ._record import Quiet, TensorBoard

# For the completion of the shell, which must not wait for JAX.
METHODS = ["mgdl", "sgdl", "msdl"]
OPTIMISERS = ["auto", "gd", "momentum", "adam", "muon", "lbfgs"]
MOST = {"grades": 1000, "width": 2**15, "layers": 1000, "steps": 2**31 - 1}  # a wider network fits no memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fit:
    """Fit a table: multigrade fit data.csv --target y --model m.safetensors

    Optimiser auto reads columns as they come: numbers, text, and gaps (empty cells, NA, NaN, null, None).

    An interrupted fit continues where it was when the same command is run again; with optimiser auto, which takes
    seconds, it starts anew.
    """

    data: Annotated[Path, typer.Argument(help="CSV with a header, or NPZ with arrays X and y.")]
    target: Annotated[str, typer.Option(help="Column to predict; several separated by commas.")] = "y"
    model: Annotated[Path, typer.Option(help="Where to write the fitted model.")] = Path("model.safetensors")
    ignore: Annotated[str, typer.Option(help="Columns that are not read, separated by commas.")] = ""
    method: Annotated[str, typer.Option(help="mgdl, sgdl or msdl.", autocompletion=lambda: METHODS)] = "mgdl"
    classify: Annotated[bool, typer.Option("--classify", help="The target holds classes, by name or number.")] = False
    grades: Annotated[int | None, typer.Option(help="Number of grades (mgdl); 3 if not given.")] = None
    width: Annotated[
        int | None,
        typer.Option(
            help="Neurons per hidden layer; 64 (with optimiser auto 128 for many rows; 32 for msdl) if not given."
        ),
    ] = None
    layers: Annotated[
        int | None, typer.Option(help="Hidden layers: 2 per grade of mgdl, 6 for sgdl, 3 for msdl if not given.")
    ] = None
    steps: Annotated[
        int | None,
        typer.Option(help="Steps per grade; with optimiser auto by rows, else 300 (mgdl) or 900, if not given."),
    ] = None
    optimiser: Annotated[
        str | None,
        typer.Option(
            help="auto (for tables: members that decide on rows left out), or gd, momentum, adam, muon, lbfgs; "
            "auto for mgdl and muon otherwise if not given.",
            autocompletion=lambda: OPTIMISERS,
        ),
    ] = None
    learning_rate: Annotated[float | None, typer.Option(help="Peak rate; the optimiser's default if not given.")] = None
    early_stopping: Annotated[
        bool | None,
        typer.Option(help="Hold out a tenth of the rows; stop on them, and keep only grades that improve on them."),
    ] = None
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0
    tensorboard: TensorBoard = None
    quiet: Quiet = False

    def run(self) -> None:
        from ..files import check_output, printable, remove_checkpoint
        from ..tables.files import numbered, read_table, split_target, target_columns

        check_output(self.model, (".safetensors",))
        self._check()
        table = read_table(self.data, as_it_comes=self._solver == "auto" or self.classify)
        ignored = [name.strip() for name in self.ignore.split(",") if name.strip()]
        inputs, targets = split_target(table, self.target, ignored)
        targets = _classes(table, self.target, targets) if self.classify else _numbers(table, self.target, targets)
        estimator, rows = self._estimator(), inputs.inputs()
        self._train(estimator, rows, targets)
        estimator.target_names = target_columns(table, self.target)
        names = inputs.columns
        estimator.columns_ = estimator.columns_._replace(names=names)
        if self.data.suffix.lower() == ".csv" or names != numbered("x", len(names)):  # as of a data frame
            import numpy as np

            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator.save(self.model)  # before anything is printed, which may fail
        if self._solver != "auto":  # which reads and writes no checkpoint: one that is there is another fit's
            remove_checkpoint(self._checkpoint)
        if not self.quiet:
            estimator.__dict__.pop("feature_names_in_", None)  # the rows here have no names
            _print_fit(estimator, rows, targets)
            print(f"model written to {printable(self.model)}")

    @property
    def _checkpoint(self) -> Path:
        return self.model.with_suffix(".checkpoint")

    @property
    def _solver(self) -> str:
        return self.optimiser or ("auto" if self.method == "mgdl" else "muon")

    def _check(self) -> None:
        if self.grades is not None and self.method != "mgdl":
            raise ValueError(f"--grades belongs to --method mgdl; got --method {self.method}")
        if self._solver not in OPTIMISERS or (self._solver == "auto" and self.method != "mgdl"):
            raise ValueError(f"--optimiser must be one of {', '.join(OPTIMISERS)}; got {self._solver!r}")
        if self.early_stopping and self._solver == "auto":
            raise ValueError(
                "--early-stopping needs another --optimiser than auto, whose members always leave rows out"
            )
        for name, most in MOST.items():
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise ValueError(f"--{name} must be at least 1 and at most {most}; got {value}")

    def _estimator(self):
        """The estimator of the method, with its own value of whatever is None."""
        from .. import tables

        names = {"mgdl": "MultiGrade", "sgdl": "SingleGrade", "msdl": "MultiScale"}
        if self.method not in names:
            raise ValueError(f"--method must be one of {', '.join(names)}; got {self.method!r}")
        if self.classify and self.method == "msdl":
            raise ValueError("--method must be mgdl or sgdl with --classify; got msdl")
        kind = getattr(tables, names[self.method] + ("Classifier" if self.classify else "Regressor"))
        given = {
            "n_grades": self.grades, "max_iter": self.steps, "solver": self._solver,
            "learning_rate": self.learning_rate, "early_stopping": self.early_stopping, "random_state": self.seed,
        }  # fmt: skip
        estimator = kind(**{name: value for name, value in given.items() if value is not None})
        if self.width is not None or self.layers is not None:
            own = estimator._value("hidden_layer_sizes")
            estimator.hidden_layer_sizes = (self.width or own[0],) * (self.layers or len(own))
        return estimator

    def _train(self, estimator, inputs, targets) -> None:
        from sklearn.exceptions import ConvergenceWarning

        from ._live import watching

        view = {"quiet": self.quiet, "tensorboard": self.tensorboard, "checkpoint": self._checkpoint}
        checkpoint = None if self._solver == "auto" else self._checkpoint
        with watching(estimator._value("n_grades"), "fit", **view) as observers, warnings.catch_warnings():
            if not self.quiet:
                warnings.simplefilter("ignore", ConvergenceWarning)  # the outcomes are printed
            estimator.fit(inputs, targets, observers=observers, checkpoint=checkpoint)


def _classes(table, target: str, codes):
    """The classes of the column ``target``: its text, or its numbers, as integers where they are whole."""
    import numpy as np

    if codes.ndim > 1:
        raise ValueError(f"--target must be one column with --classify; got {target!r}")
    if np.isnan(codes).any():
        row = int(np.argmax(np.isnan(codes))) + 1
        raise ValueError(f"data row {row} has no class in the column {target.strip()!r}; leave out such rows")
    if target.strip() in table.labels:
        return np.array(table.labels[target.strip()])[codes.astype(int)]
    is_whole = np.array_equal(codes, np.rint(codes)) and np.abs(codes).max() < 2**53
    return codes.astype(int) if is_whole else codes


def _numbers(table, target: str, targets):
    """The targets, if they are numbers."""
    import numpy as np

    from ..tables.files import target_columns

    for name, column in zip(target_columns(table, target), targets.reshape(len(targets), -1).T, strict=True):
        if name in table.labels:
            raise ValueError(
                f"the column {name!r} holds text, {table.labels[name][0]!r} for one; classes need --classify"
            )
        if np.isnan(column).any():
            row = int(np.argmax(np.isnan(column))) + 1
            raise ValueError(f"data row {row} has no number in the column {name!r}; leave out such rows")
    return targets


def _print_fit(estimator, inputs, targets) -> None:
    from rich.console import Console
    from rich.table import Table
    from sklearn.base import is_classifier
    from sklearn.metrics import accuracy_score, r2_score

    from ..training import Outcome
    from ._live import print_outcomes

    measure, word = (accuracy_score, "accuracy") if is_classifier(estimator) else (r2_score, "R2")
    table = Table("grade", f"{word} on the training rows", "loss", "steps", "seconds", "outcome")
    stages = estimator.staged_predict(inputs)
    for index, (record, stage) in enumerate(zip(estimator.records_, stages, strict=True)):
        score = f"{measure(targets, stage):.4f}" if len(targets) > 1 else "-"  # one row has no variance
        table.add_row(
            str(index + 1), score, f"{record.train_loss[-1]:.3g}", str(record.num_steps),
            f"{record.seconds:.1f}", record.outcome,
        )  # fmt: skip
    Console().print(table)
    print(_held_out_score(estimator, inputs, targets, measure, word))
    print_outcomes(estimator.records_)
    decides = estimator.early_stopping or estimator.solver == "auto"
    if idle := sorted(set(estimator.columns_.names) - set(estimator.columns_used_)):
        print(f"columns that play no part: {', '.join(idle[:20])}{' ...' if len(idle) > 20 else ''}")
    if estimator.codes_:
        print(f"columns read by what the targets of their levels are like: {', '.join(estimator.codes_)}")
    is_left_out = decides and estimator.n_grades_ < estimator._value("n_grades")
    if is_left_out and estimator.records_[-1].outcome is not Outcome.DIVERGED:
        print(f"grade {estimator.n_grades_ + 1}: did not help on the rows held out, and was left out")


def _held_out_score(estimator, inputs, targets, measure, word: str) -> str:
    """How good it is on rows that no step has seen, where there are such."""
    if estimator.solver == "auto":
        first, *_, last = estimator.fold_losses_
        return f"loss on the rows that members left out: {first:.3g} before any grade, {last:.3g} with all grades"
    if not estimator.early_stopping:
        return f"no rows were held out: --early-stopping holds out a tenth, and prints the {word} on them"
    from ..tables.structured import split_rows

    _, held_out = split_rows(estimator, (inputs, targets, [1.0] * len(inputs)))
    assert held_out is not None  # early_stopping holds some out
    inputs, targets = held_out[:2]
    if len(targets) < 2:
        return f"{len(targets)} row was held out: too few for the {word}"
    return f"{word} on the {len(targets)} rows held out: {measure(targets, estimator.predict(inputs)):.4f}"


def predict(
    model: Annotated[Path, typer.Argument(help="A model written by multigrade fit.")],
    data: Annotated[Path, typer.Argument(help="CSV or NPZ with the columns the model was fitted on.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the predictions (.csv or .npz).")],
    quiet: Quiet = False,
) -> None:
    """Predict: multigrade predict m.safetensors new.csv -o out.csv"""
    from ..files import check_output, is_same_file, printable
    from ..tables.files import numbered, read_table, write_classes, write_predictions

    check_output(output, (".csv", ".npz"))
    for file in (data, model):
        if is_same_file(output, file):
            raise ValueError(f"the output {output} is the input {file}; choose another name")
    from ..tables import load_estimator

    estimator: Any = load_estimator(model)
    table = read_table(data, as_it_comes=True)
    # The columns are put in order here, and the estimator is given their values alone.
    names = estimator.__dict__.pop("feature_names_in_", None)
    of_arrays = "" if names is not None else ": fitted on arrays, it expects columns x0, x1, ..."
    names = numbered("x", estimator.n_features_in_) if names is None else names
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(f"{data} lacks the column {missing[0]!r} that the model was fitted on{of_arrays}")
    inputs = table.select(names).inputs()
    prediction = estimator.predict(inputs)
    targets = estimator.target_names or ["y"]
    if hasattr(estimator, "classes_"):
        write_classes(output, targets[0], estimator.classes_, prediction, estimator.predict_proba(inputs))
    else:
        write_predictions(output, targets, prediction)
    if not quiet:
        print(f"{len(prediction)} predictions written to {printable(output)}")
