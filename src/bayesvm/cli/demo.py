"""The command ``bayesvm demo``: data sets of scikit-learn, scored, drawn and reported."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ..compare import evaluate, score_table
from ..data.atomic import replace_file
from ..estimators.kernel import BayesianSVC
from ..estimators.linear import BayesianLinearSVC
from .terminal import plain_console, show_file

OURS = ["BayesianSVC()", "BayesianLinearSVC()"]


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
        with warnings.catch_warnings():  # of scikit-learn: defaults that will change
            warnings.simplefilter("ignore", FutureWarning)
            splits = StratifiedShuffleSplit(repeats, test_size=0.25, random_state=0)
            frame = evaluate(
                _models(), _data(), splits, ["log_loss", "error"], n_jobs=1, progress=True
            )
        loss = score_table(frame, "log_loss")
        console.print(_scores(frame, repeats))
        console.print(_verdict(loss))
        seeds = track(
            range(simulations), "simulating", console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        console.print(
            f"90% intervals covered the true probability for {_coverage(seeds):.0%} of new rows "
            f"({simulations} simulated sets of 200 rows). The other models have no intervals."
        )
        X, y = _tumours()
        model = BayesianLinearSVC(random_state=0).fit(X, y)
        _draw(loss, model, X, picture)
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


def _models() -> dict[str, Any]:
    """The compared models, the others wrapped in the search that they need."""
    machine = CalibratedClassifierCV(SVC(), ensemble=False, cv=3)
    grid = {"estimator__C": [0.1, 1, 10, 100], "estimator__gamma": [0.001, 0.01, 0.1, 1]}
    search = GridSearchCV(machine, grid, scoring="neg_log_loss", cv=3)
    return {
        OURS[0]: BayesianSVC(random_state=0),
        OURS[1]: BayesianLinearSVC(random_state=0),
        "tuned SVC, Platt": make_pipeline(StandardScaler(), search),
        "LogisticRegressionCV": make_pipeline(
            StandardScaler(), LogisticRegressionCV(max_iter=1000)
        ),
        "boosting": HistGradientBoostingClassifier(),
    }


def _scores(frame: Any, repeats: int) -> str:
    """Mean log loss, error and seconds of every model."""
    loss, error, seconds = (score_table(frame, k) for k in ("log_loss", "error", "fit_seconds"))
    percent = (100 * error).map("{:4.1f}".format)
    table = (loss.map("{:.3f}".format) + " " + percent).T.assign(seconds=seconds.mean().round(2))
    title = f"Log loss and error (%) of test rows, mean over {repeats} splits"
    return f"{title}\n{table.rename_axis(index=None, columns=None).to_string()}"


def _verdict(loss: Any) -> str:
    """Data sets on which our log loss is the lowest, and the others."""
    best, own = loss.idxmin(axis=1), loss[OURS].min(axis=1)
    ahead = [table for table in loss.index if best[table] in OURS]
    lines = [f"Lowest log loss is ours on {', '.join(ahead) or 'none of the tables'}."]
    lines += [f"On {t} {best[t]} is ahead: {loss.loc[t].min():.3f} against {own[t]:.3f}."
              for t in loss.index if t not in ahead]  # fmt: skip
    return "\n".join(lines)


def _coverage(seeds: Iterable[int]) -> float:
    """Share of 90 % intervals of new rows that contain the true probability; logistic labels."""
    held = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, new = rng.standard_normal((200, 5)), rng.standard_normal((100, 5))
        slopes = 2 * np.ones(5) / np.sqrt(5)
        p, p_new = (1 / (1 + np.exp(-rows @ slopes)) for rows in (X, new))
        model = BayesianLinearSVC(random_state=0).fit(X, rng.random(200) < p)
        lower, upper = model.predict_interval(new, level=0.9)
        held.append(np.mean((lower[:, 1] <= p_new) & (p_new <= upper[:, 1])))
    return float(np.mean(held))


def _draw(loss: Any, model: Any, X: Any, path: Path) -> None:
    """Three panels: a boundary with its band, log loss of all models, effects of columns."""
    import matplotlib.pyplot as plt

    from ..plot import DecisionBandDisplay, EffectsDisplay

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    moons = make_moons(300, noise=0.2, random_state=0)
    machine = BayesianSVC(random_state=0).fit(*moons)
    DecisionBandDisplay.from_estimator(machine, *moons, ax=axes[0])
    axes[0].set(title="Boundary; hatched: the interval includes 1/2", xlabel="", ylabel="")
    for name, column in loss.div(loss.min(axis=1), axis=0).items():
        axes[1].plot(column.index, column, "o" if name in OURS else "s", label=name)
    axes[1].set(title="Log loss relative to the best", yscale="log")
    axes[1].legend(fontsize="small")
    EffectsDisplay.from_estimator(model, X, top=10, ax=axes[2])
    axes[2].set(title="Tumours: average effects", xlabel="change of P(malignant), 90% interval")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    replace_file(path, lambda file: figure.savefig(file, format="png", dpi=110))
    plt.close(figure)
