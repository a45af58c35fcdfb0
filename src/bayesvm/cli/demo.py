"""The command ``bayesvm demo``: the breast-cancer data of scikit-learn, fitted and compared."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from .terminal import make_folder, plain_console, show_file

GRID = [10.0**k for k in range(-4, 3)]
BASELINE = "LinearSVC + Platt"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the figure.")] = Path(
        "."
    ),
    repeats: Annotated[int, typer.Option(min=1, hidden=True)] = 10,
    draws: Annotated[int, typer.Option(min=4, hidden=True)] = 500,
) -> None:
    """Fit the breast-cancer data of scikit-learn, print the results, save a figure."""
    from sklearn.datasets import load_breast_cancer
    from threadpoolctl import threadpool_limits

    from ..inference import Gibbs

    make_folder(output)
    console, begin = plain_console(), time.perf_counter()
    data = load_breast_cancer(as_frame=True)
    X, X_test, y, y_test = _split(data, 0)
    schemes = {"vb": "vb", "em": "em", "gibbs": Gibbs(draws=draws, burn_in=draws // 2)}
    console.print(
        f"Breast cancer, Wisconsin: {len(data.data)} tumours, {X.shape[1]} measurements; "
        f"{len(X)} training rows, {len(X_test)} test rows."
    )
    with threadpool_limits(1):  # matrices this small are slower on several threads
        models = {}
        for name, scheme in schemes.items():
            start = time.perf_counter()
            models[name] = model = _fit(scheme, X, y, 0)
            console.print(
                f"  {name:6s}{time.perf_counter() - start:6.2f} s, {model.n_iter_} "
                + ("draws per chain" if name == "gibbs" else "passes")
            )
        console.print(_coefficients(models, X, top=8))
        frame, held_out = _compare(data, schemes, repeats)
        console.print(_scores(frame, repeats))
        failed = int(frame.loc[frame["method"] == "gibbs", "not converged"].sum())
        console.print(
            "Each split: 75% of the rows for training, 25% for testing, stratified; the splits "
            "share rows, so the standard errors are rough.\n"
            f"{BASELINE}: columns standardised, C by 5-fold grid search over {len(GRID)} values, "
            "then CalibratedClassifierCV(ensemble=False); search and calibration are timed.\n"
            f"gibbs: 4 chains of {draws // 2} + {draws} sweeps; R-hat was above 1.1 in {failed} of "
            f"the {repeats} splits. em has no posterior, so no intervals.",
            style="dim",
        )
        path = _figure(models, X_test, y_test, held_out, output / "bayesvm-demo.png")
    console.print(f"Done in {time.perf_counter() - begin:.0f} s.")
    if path is None:
        console.print("No figure was drawn: pip install 'bayesvm[plot]'")
    else:
        show_file(console, "Figure", path)


def _split(data: Any, seed: int) -> Any:
    from sklearn.model_selection import train_test_split

    y = data.target_names[data.target]
    return train_test_split(data.data, y, test_size=0.25, stratify=y, random_state=seed)


def _fit(inference: Any, X: Any, y: Any, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    from ..estimators.linear import BayesianLinearSVC

    with warnings.catch_warnings():  # chains this short need not converge; the text says so
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BayesianLinearSVC(inference=inference, random_state=seed).fit(X, y)


def _tuned_svc(X: Any, y: Any) -> Any:
    """The usual alternative: C by grid search, then Platt's sigmoid by cross-validation."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    machine = make_pipeline(StandardScaler(), LinearSVC(max_iter=100_000))
    search = GridSearchCV(machine, {"linearsvc__C": GRID}).fit(X, y)
    return CalibratedClassifierCV(search.best_estimator_, ensemble=False).fit(X, y)


def _compare(data: Any, schemes: dict[str, Any], repeats: int) -> tuple[Any, dict[str, Any]]:
    """Scores and seconds of every method on every split, and all held-out predictions."""
    import numpy as np
    import pandas as pd
    from rich.progress import track
    from sklearn.metrics import brier_score_loss, log_loss

    rows: list[dict[str, Any]] = []
    held_out: dict[str, Any] = {name: [] for name in (*schemes, BASELINE)}
    for seed in track(range(repeats), "comparing", transient=True):
        X, X_test, y, y_test = _split(data, seed)
        for name, predictions in held_out.items():
            start = time.perf_counter()
            model = _tuned_svc(X, y) if name == BASELINE else _fit(schemes[name], X, y, seed)
            seconds = time.perf_counter() - start
            hit, p = y_test == model.classes_[1], model.predict_proba(X_test)[:, 1]
            predictions.append((hit, p))
            rows.append(
                {
                    "method": name,
                    "test error": float(np.mean(hit != (p > 0.5))),
                    "log loss": float(log_loss(hit, p)),
                    "Brier score": float(brier_score_loss(hit, p)),
                    "seconds": seconds,
                    "not converged": name != BASELINE and not model.converged_,
                }
            )
    return pd.DataFrame(rows), {name: np.hstack(kept) for name, kept in held_out.items()}


def _coefficients(models: dict[str, Any], X: Any, top: int) -> Any:
    """Table of the coefficients with the most certain signs, per standard deviation."""
    from rich.table import Table

    vb, gibbs = (
        models[name].summary(0.9).drop(index="intercept").mul(X.std(ddof=0), axis=0)
        for name in ("vb", "gibbs")
    )
    label = models["vb"].classes_[1]
    out = Table(title=f"vb: the {top} coefficients surest of their sign, for {label}")
    out.add_column("measurement")
    for name in ("mean", "sd", "90% interval", "the same by gibbs"):
        out.add_column(name, justify="right")
    for name in (vb["mean"].abs() / vb["sd"]).sort_values(ascending=False).index[:top]:
        ends = [f"{f.at[name, 'lower']:+.2f} to {f.at[name, 'upper']:+.2f}" for f in (vb, gibbs)]
        out.add_row(name, f"{vb.at[name, 'mean']:+.2f}", f"{vb.at[name, 'sd']:.2f}", *ends)
    out.caption = (
        "per standard deviation of the column; intervals have the width of the data: how far "
        "estimates would vary with other rows"
    )
    return out


def _scores(frame: Any, repeats: int) -> Any:
    """Means of the scores with standard errors, one row per method."""
    from rich.table import Table

    by = frame.drop(columns="not converged").groupby("method", sort=False)
    mean, error = by.mean(), by.std(ddof=1).fillna(0.0) / repeats**0.5
    out = Table(title=f"Held-out scores over {repeats} random splits, mean ± standard error")
    out.add_column("method", no_wrap=True)
    for name in mean.columns:
        out.add_column(name, justify="right")
    for method, row in mean.iterrows():
        texts = [
            f"{row[name]:.3f} ± {error.at[method, name]:.3f}"
            for name in ("test error", "log loss", "Brier score")
        ]
        out.add_row(str(method), *texts, f"{row['seconds']:.2f}")
    return out


def _figure(models: dict[str, Any], X: Any, y: Any, held_out: Any, path: Path) -> Path | None:
    """Four panels: three of the first split, and calibration over all splits."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    from ..plot import (
        CalibrationDisplay,
        CoefficientDisplay,
        ConvergenceDisplay,
        ProbabilityDisplay,
    )

    figure, axes = plt.subplots(2, 2, figsize=(11.5, 8.5), layout="constrained")
    vb = models["vb"]
    ConvergenceDisplay.from_estimator(vb, name="vb", gap=True, ax=axes[0, 0])
    name = "em (smoothing of the hinge lowered in steps)"
    ConvergenceDisplay.from_estimator(models["em"], name=name, gap=True, ax=axes[0, 0])
    axes[0, 0].set(title="Convergence", ylabel="objective: distance to best")
    CoefficientDisplay.from_estimator(vb, top=12, ax=axes[0, 1])
    axes[0, 1].set_title("Coefficients surest of their sign (vb)")
    for name, offset in (("vb", (4, -10)), (BASELINE, (-12, 5))):
        CalibrationDisplay.from_predictions(
            *held_out[name], n_bins=8, name=name, ax=axes[1, 0], offset=offset
        )
    axes[1, 0].set_title(f"Calibration: {held_out['vb'].shape[1]} held-out predictions")
    ProbabilityDisplay.from_estimator(vb, X, y, ax=axes[1, 1])
    axes[1, 1].set_title(f"{len(X)} test rows: probability, interval, outcome (vb)")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
