"""The command ``bayesvm demo``: data sets of scikit-learn, scored, drawn and reported."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.atomic import replace_file
from .terminal import make_folder, plain_console, show_file

OURS = ("BayesianSVC()", "BayesianLinearSVC()")


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the files.")] = Path(
        "."
    ),
    repeats: Annotated[int, typer.Option(min=1, hidden=True)] = 5,
    simulations: Annotated[int, typer.Option(min=1, hidden=True)] = 100,
) -> None:
    """Compare classifiers on four data sets, check intervals, save a figure and a report."""
    from threadpoolctl import threadpool_limits

    from ..html_report.report import report

    make_folder(output)
    console, begin = plain_console(), time.perf_counter()
    with threadpool_limits(1):  # matrices this small are slower on several threads
        frame = _compare(_data(), _models(), repeats)
        console.print(_scores(frame, repeats))
        console.print(_verdict(frame))
        console.print(
            f"90% intervals covered the true probability for {_coverage(simulations):.0%} of new "
            f"rows ({simulations} simulated sets of 200 rows). The other models have no intervals."
        )
        X, y = _tumours()
        model = _ours("BayesianLinearSVC", X, y)
        console.print(_effects(model, X))
        path = _figure(frame, model, X, output / "bayesvm-demo.png")
        page = output / "bayesvm-demo.html"
        report(model, X, y, title="Is a tumour malignant?").save(page)
    console.print(f"Done in {time.perf_counter() - begin:.0f} s.")
    if path is None:
        console.print("No figure was drawn: pip install 'bayesvm[plot]'")
    else:
        show_file(console, "Figure", path)
    show_file(console, "Report, to be opened in a browser", page)


def _tumours() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return data.data, data.target_names[data.target]


def _data() -> dict[str, tuple[Any, Any]]:
    """Four tables that need no network."""
    from sklearn.datasets import load_diabetes, load_wine, make_moons

    sick = load_diabetes(as_frame=True)
    return {
        "tumours": _tumours(),
        "wine": load_wine(return_X_y=True),
        "diabetes": (sick.data, sick.target > sick.target.median()),
        "moons": make_moons(400, noise=0.3, random_state=0),
    }


def _models() -> dict[str, Callable[[Any, Any], Any]]:
    """What fits each model, with the search that it needs."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    def tuned_svc(X: Any, y: Any) -> Any:
        widths = [2.0**k / X.shape[1] for k in (1, -1, -3, -5)]
        grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": widths}
        search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid).fit(X, y)
        return CalibratedClassifierCV(search.best_estimator_, ensemble=False).fit(X, y)

    logistic = LogisticRegressionCV(max_iter=1000)
    return {
        OURS[0]: lambda X, y: _ours("BayesianSVC", X, y),
        OURS[1]: lambda X, y: _ours("BayesianLinearSVC", X, y),
        "tuned SVC, Platt": tuned_svc,
        "LogisticRegressionCV": lambda X, y: make_pipeline(StandardScaler(), logistic).fit(X, y),
        "boosting": lambda X, y: HistGradientBoostingClassifier().fit(X, y),
    }


def _ours(name: str, X: Any, y: Any) -> Any:
    from ..estimators.kernel import BayesianSVC
    from ..estimators.linear import BayesianLinearSVC

    machine = {"BayesianSVC": BayesianSVC, "BayesianLinearSVC": BayesianLinearSVC}[name]
    return machine(random_state=0).fit(X, y)


def _compare(data: dict[str, Any], models: dict[str, Any], repeats: int) -> Any:
    """Log loss, error and seconds of every model on every split of every table."""
    import numpy as np
    import pandas as pd
    from rich.progress import track
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split

    rows: list[dict[str, Any]] = []
    jobs = [(table, seed) for table in data for seed in range(repeats)]
    for table, seed in track(jobs, "comparing", transient=True):
        X, y = data[table]
        X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=seed)
        for name, fit in models.items():
            start = time.process_time()
            with warnings.catch_warnings():  # of scikit-learn: defaults that will change
                warnings.simplefilter("ignore", FutureWarning)
                model = fit(X, y)
            seconds = time.process_time() - start
            P = model.predict_proba(X_test)
            wrong = np.mean(model.classes_[P.argmax(axis=1)] != y_test)
            loss = log_loss(y_test, P, labels=model.classes_)
            rows.append(
                {"table": table, "model": name, "loss": loss, "error": wrong, "seconds": seconds}
            )
    return pd.DataFrame(rows)


def _means(frame: Any, column: str) -> Any:
    """Means over splits: a row for each model, a column for each table."""
    means = frame.pivot_table(index="model", columns="table", values=column, sort=False)
    return means.reindex(columns=frame["table"].unique())


def _scores(frame: Any, repeats: int) -> Any:
    from rich.table import Table
    from rich.text import Text

    loss, error = _means(frame, "loss"), _means(frame, "error")
    seconds = frame.groupby("model")["seconds"].mean()
    out = Table(title=f"Log loss and error (%) of test rows, mean over {repeats} splits")
    out.add_column("model", no_wrap=True)
    for table in loss.columns:
        out.add_column(table, justify="right")
    out.add_column("CPU s", justify="right")
    for model in loss.index:
        cells = [
            Text(
                f"{loss.at[model, t]:.3f} {100 * error.at[model, t]:4.1f}".lstrip("0"),
                style="bold" if loss[t].idxmin() == model else "",
            )
            for t in loss.columns
        ]
        out.add_row(model, *cells, f"{seconds[model]:.2f}")
    return out


def _verdict(frame: Any) -> str:
    """Where the lowest log loss is ours, and where it is not."""
    loss = _means(frame, "loss")
    best = loss.idxmin()
    ahead = [t for t in loss.columns if best[t] in OURS]
    lines = [f"Lowest log loss is ours on {', '.join(ahead) or 'none of the tables'}."]
    for table in loss.columns.difference(ahead):
        own = loss.loc[list(OURS), table].min()
        lines.append(
            f"On {table} {best[table]} is ahead: {loss[table].min():.3f} against {own:.3f}."
        )
    return "\n".join(lines)


def _coverage(simulations: int) -> float:
    """Share of 90 % intervals of new rows that hold the true probability; logistic labels."""
    import numpy as np
    from rich.progress import track

    held = []
    for seed in track(range(simulations), "simulating", transient=True):
        rng = np.random.default_rng(seed)
        X, new = rng.standard_normal((200, 5)), rng.standard_normal((100, 5))
        slopes = 2 * np.ones(5) / np.sqrt(5)
        p, p_new = (1 / (1 + np.exp(-rows @ slopes)) for rows in (X, new))
        model = _ours("BayesianLinearSVC", X, rng.random(200) < p)
        lower, upper = model.predict_interval(new, level=0.9)
        held.append(np.mean((lower[:, 1] <= p_new) & (p_new <= upper[:, 1])))
    return float(np.mean(held))


def _effects(model: Any, X: Any, top: int = 6) -> Any:
    """Table of the largest average effects on the probability."""
    from rich.table import Table

    effects = model.average_effects(X)
    label = model.classes_[1]
    out = Table(title=f"Tumours: what changes P({label}) most")
    out.add_column("measurement")
    for name in ("change per sd", "90% interval"):
        out.add_column(name, justify="right")
    for (name, _), row in effects.loc[effects["mean"].abs().nlargest(top).index].iterrows():
        ends = f"{row['lower']:+.1%} to {row['upper']:+.1%}"
        out.add_row(str(name), f"{row['mean']:+.1%}", ends)
    return out


def _figure(frame: Any, model: Any, X: Any, path: Path) -> Path | None:
    """Three panels: a boundary with its band, log loss of all models, effects of columns."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    from sklearn.datasets import make_moons

    from ..plot import DecisionBandDisplay, EffectsDisplay

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    moons = make_moons(300, noise=0.2, random_state=0)
    DecisionBandDisplay.from_estimator(_ours("BayesianSVC", *moons), *moons, ax=axes[0])
    axes[0].set(title="Boundary; hatched: the interval includes 1/2", xlabel="", ylabel="")
    loss = _means(frame, "loss")
    for row, name in enumerate(loss.index):
        own = name in OURS
        shape = {"marker": "o" if own else "s", "linestyle": "", "markersize": 9 if own else 6}
        at = range(len(loss.columns))
        axes[1].plot(at, loss.loc[name] / loss.min(), color=f"C{row}", label=name, **shape)
    axes[1].set(title="Log loss relative to the best", yscale="log")
    axes[1].set_xticks(range(len(loss.columns)), loss.columns)
    axes[1].legend(fontsize="small")
    EffectsDisplay.from_estimator(model, X, top=10, ax=axes[2])
    axes[2].set(title="Tumours: average effects", xlabel="change of P(malignant), 90% interval")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    replace_file(path, lambda file: figure.savefig(file, format="png", dpi=110))
    plt.close(figure)
    return path
