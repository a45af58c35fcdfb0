"""The command ``bayesvm demo``: data sets of scikit-learn, scored, drawn and reported."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.progress import track
from rich.table import Table
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ..data.atomic import replace_file
from ..estimators.kernel import BayesianSVC
from ..estimators.linear import BayesianLinearSVC
from .terminal import plain_console, show_file

OURS = ("BayesianSVC()", "BayesianLinearSVC()")


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the files.")] = Path(
        "."
    ),
    repeats: Annotated[int, typer.Option(min=1, hidden=True)] = 5,
    simulations: Annotated[int, typer.Option(min=1, hidden=True)] = 100,
) -> None:
    """Compare classifiers on four data sets, check intervals, save a figure and a report."""
    from ..html_report.report import report

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"the folder {output} cannot be made: {error.strerror}") from error
    console, begin = plain_console(), time.perf_counter()
    picture, page = output / "bayesvm-demo.png", output / "bayesvm-demo.html"
    with threadpool_limits(1):  # matrices this small are slower on several threads
        frame = _compare(_data(), repeats)
        console.print(_scores(frame, repeats))
        console.print(_verdict(frame))
        console.print(
            f"90% intervals covered the true probability for {_coverage(simulations):.0%} of new "
            f"rows ({simulations} simulated sets of 200 rows). The other models have no intervals."
        )
        X, y = _tumours()
        model = BayesianLinearSVC(random_state=0).fit(X, y)
        console.print(_effects(model, X))
        _draw(frame, model, X, picture)
        report(model, X, y, title="Is a tumour malignant?").save(page)
    console.print(f"Done in {time.perf_counter() - begin:.0f} s.")
    show_file(console, "Figure", picture)
    show_file(console, "Report, to be opened in a browser", page)


def _tumours() -> tuple[Any, Any]:
    data = load_breast_cancer(as_frame=True)
    return data.data, data.target_names[data.target]


def _data() -> dict[str, tuple[Any, Any]]:
    """Four tables that need no network."""
    sick = load_diabetes(as_frame=True)
    return {
        "tumours": _tumours(),
        "wine": load_wine(return_X_y=True),
        "diabetes": (sick.data, sick.target > sick.target.median()),
        "moons": make_moons(400, noise=0.3, random_state=0),
    }


def _models(n_columns: int) -> dict[str, Any]:
    """The models that are compared, the others with the search that they need."""
    widths = [2.0**k / n_columns for k in (1, -1, -3, -5)]
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": widths}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid)
    logistic = LogisticRegressionCV(max_iter=1000)
    return {
        OURS[0]: BayesianSVC(random_state=0),
        OURS[1]: BayesianLinearSVC(random_state=0),
        "tuned SVC, Platt": search,
        "LogisticRegressionCV": make_pipeline(StandardScaler(), logistic),
        "boosting": HistGradientBoostingClassifier(),
    }


def _compare(data: dict[str, Any], repeats: int) -> pd.DataFrame:
    """Log loss, error and seconds of every model on every split of every table."""
    rows = []
    jobs = [(table, seed) for table in data for seed in range(repeats)]
    for table, seed in track(jobs, "comparing", transient=True):
        X, y = data[table]
        X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=seed)
        for name, model in _models(X.shape[1]).items():
            start = time.process_time()
            with warnings.catch_warnings():  # of scikit-learn: defaults that will change
                warnings.simplefilter("ignore", FutureWarning)
                model = clone(model).fit(X, y)
                if hasattr(model, "best_estimator_"):
                    best = model.best_estimator_
                    model = CalibratedClassifierCV(best, ensemble=False).fit(X, y)
            seconds = time.process_time() - start
            P = model.predict_proba(X_test)
            wrong = np.mean(model.classes_[P.argmax(axis=1)] != y_test)
            rows.append([table, name, log_loss(y_test, P, labels=model.classes_), wrong, seconds])
    return pd.DataFrame(rows, columns=["table", "model", "loss", "error", "seconds"])


def _means(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Means over splits: a row for each model, a column for each table."""
    means = frame.pivot_table(index="model", columns="table", values=column, sort=False)
    return means.reindex(columns=frame["table"].unique())


def _scores(frame: pd.DataFrame, repeats: int) -> Table:
    loss, error = _means(frame, "loss"), _means(frame, "error")
    seconds = frame.groupby("model")["seconds"].mean()
    out = Table(title=f"Log loss and error (%) of test rows, mean over {repeats} splits")
    out.add_column("model", no_wrap=True)
    for name in (*loss.columns, "CPU s"):
        out.add_column(name, justify="right")
    for model in loss.index:
        cells = [f"{loss.at[model, t]:.3f} {100 * error.at[model, t]:4.1f}" for t in loss.columns]
        out.add_row(model, *(cell.lstrip("0") for cell in cells), f"{seconds[model]:.2f}")
    return out


def _verdict(frame: pd.DataFrame) -> str:
    """Where the lowest log loss is ours, and where it is not."""
    loss = _means(frame, "loss")
    best, own = loss.idxmin(), loss.loc[list(OURS)].min()
    ahead = [table for table in loss.columns if best[table] in OURS]
    lines = [f"Lowest log loss is ours on {', '.join(ahead) or 'none of the tables'}."]
    lines += [f"On {t} {best[t]} is ahead: {loss[t].min():.3f} against {own[t]:.3f}."
              for t in loss.columns if t not in ahead]  # fmt: skip
    return "\n".join(lines)


def _coverage(simulations: int) -> float:
    """Share of 90 % intervals of new rows that hold the true probability; logistic labels."""
    held = []
    for seed in track(range(simulations), "simulating", transient=True):
        rng = np.random.default_rng(seed)
        X, new = rng.standard_normal((200, 5)), rng.standard_normal((100, 5))
        slopes = 2 * np.ones(5) / np.sqrt(5)
        p, p_new = (1 / (1 + np.exp(-rows @ slopes)) for rows in (X, new))
        model = BayesianLinearSVC(random_state=0).fit(X, rng.random(200) < p)
        lower, upper = model.predict_interval(new, level=0.9)
        held.append(np.mean((lower[:, 1] <= p_new) & (p_new <= upper[:, 1])))
    return float(np.mean(held))


def _effects(model: Any, X: Any, top: int = 6) -> Table:
    """Table of the largest average effects on the probability."""
    effects = model.average_effects(X)
    out = Table("measurement", title=f"Tumours: what changes P({model.classes_[1]}) most")
    for name in ("change per sd", "90% interval"):
        out.add_column(name, justify="right")
    for (name, _), row in effects.loc[effects["mean"].abs().nlargest(top).index].iterrows():
        ends = f"{row['lower']:+.1%} to {row['upper']:+.1%}"
        out.add_row(str(name), f"{row['mean']:+.1%}", ends)
    return out


def _draw(frame: pd.DataFrame, model: Any, X: Any, path: Path) -> None:
    """Three panels: a boundary with its band, log loss of all models, effects of columns."""
    import matplotlib.pyplot as plt

    from ..plot import DecisionBandDisplay, EffectsDisplay

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    moons = make_moons(300, noise=0.2, random_state=0)
    machine = BayesianSVC(random_state=0).fit(*moons)
    DecisionBandDisplay.from_estimator(machine, *moons, ax=axes[0])
    axes[0].set(title="Boundary; hatched: the interval includes 1/2", xlabel="", ylabel="")
    loss = _means(frame, "loss")
    for name, row in (loss / loss.min()).iterrows():
        axes[1].plot(row.index, row, "o" if name in OURS else "s", label=name)
    axes[1].set(title="Log loss relative to the best", yscale="log")
    axes[1].legend(fontsize="small")
    EffectsDisplay.from_estimator(model, X, top=10, ax=axes[2])
    axes[2].set(title="Tumours: average effects", xlabel="change of P(malignant), 90% interval")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    replace_file(path, lambda file: figure.savefig(file, format="png", dpi=110))
    plt.close(figure)
