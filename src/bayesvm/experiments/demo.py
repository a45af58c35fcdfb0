"""The main job in half a minute, on data that ships with scikit-learn.

Everything here is what a user would write; only printing is added.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from ..estimators import BayesianLinearSVC
from ..inference import Gibbs
from ..plot import CalibrationDisplay, CoefficientDisplay, ConvergenceDisplay, ProbabilityDisplay

GRID = np.logspace(-4, 2, 7)
BASELINE = "LinearSVC + Platt"


def schemes(draws: int) -> dict[str, Any]:
    """The three inferences shown."""
    return {"vb": "vb", "em": "em", "gibbs": Gibbs(draws=draws, burn_in=draws // 2)}


def tuned_machine(X: Any, y: Any) -> Any:
    """The usual alternative: C by grid search, then Platt's sigmoid by cross-validation."""
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LinearSVC(max_iter=100_000)), {"linearsvc__C": GRID}
    ).fit(X, y)
    return CalibratedClassifierCV(search.best_estimator_, ensemble=False).fit(X, y)


def split(data: Any, seed: int) -> Any:
    """Three quarters to learn from, one quarter to test, the classes in proportion."""
    y = np.asarray(data.target_names)[data.target]
    return train_test_split(data.data, y, test_size=0.25, stratify=y, random_state=seed)


def score(hit: Any, p: Any) -> dict[str, float]:
    """Test error and two proper scores."""
    return {
        "test error": float(np.mean(hit != (p > 0.5))),
        "log loss": float(log_loss(hit, p)),
        "Brier score": float(brier_score_loss(hit, p)),
    }


def fit(inference: Any, X: Any, y: Any, seed: int, callbacks: Any = None) -> Any:
    """A fit whose warnings are told in words of ours: chains this short need not agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BayesianLinearSVC(inference=inference, callbacks=callbacks, random_state=seed)
        return model.fit(X, y)


def compare(data: Any, repeats: int, draws: int, tick: Any) -> tuple[Any, dict[str, Any]]:
    """Scores and seconds of every method on every split, and all held-out predictions."""
    import pandas as pd

    rows = []
    held_out: dict[str, Any] = {name: [] for name in (*schemes(draws), BASELINE)}
    for seed in range(repeats):
        X, X_test, y, y_test = split(data, seed)
        for name, kept in held_out.items():
            start = time.perf_counter()
            if name == BASELINE:
                model = tuned_machine(X, y)
            else:
                model = fit(schemes(draws)[name], X, y, seed)
            seconds = time.perf_counter() - start
            hit, p = y_test == model.classes_[1], model.predict_proba(X_test)[:, 1]
            kept.append((hit, p))
            unsettled = not getattr(model, "converged_", True)
            rows.append(
                {"method": name} | score(hit, p) | {"seconds": seconds, "unsettled": unsettled}
            )
        tick()
    return pd.DataFrame(rows), {name: np.hstack(kept) for name, kept in held_out.items()}


def run(console: Any, output: Path, repeats: int = 10, draws: int = 500) -> Path | None:
    """Fit, print, draw; returns where the figure is (``None`` without matplotlib)."""
    begin = time.perf_counter()
    data = load_breast_cancer(as_frame=True)
    X, X_test, y, y_test = split(data, 0)
    console.print(
        f"Breast cancer, Wisconsin: {len(data.data)} tumours, {X.shape[1]} measurements; "
        f"{len(X)} to learn from, {len(X_test)} to test."
    )
    with threadpool_limits(1):  # matrices this small are slower on several threads
        models = fit_all(console, X, y, draws)
        console.print(coefficients(models, X, top=8))
        with progress(console) as bar:
            job = bar.add_task("comparing", total=repeats)
            frame, held_out = compare(data, repeats, draws, lambda: bar.advance(job))
        unsettled = int(frame.loc[frame["method"] == "gibbs", "unsettled"].sum())
        console.print(table(frame.drop(columns="unsettled"), repeats))
        console.print(
            "Each split: 75% to learn from, 25% to test, proportions of classes kept; the splits "
            "share rows, so the standard errors are rough.\n"
            f"{BASELINE}: columns standardised, C by 5-fold grid search over {len(GRID)} values, "
            "then CalibratedClassifierCV(ensemble=False); search and calibration are timed.\n"
            f"gibbs: 4 chains of {draws // 2} + {draws} sweeps, which did not agree (R-hat above "
            f"1.1) in {unsettled} of the {repeats} splits. em has no posterior, so no intervals.",
            style="dim",
        )
        path = picture(models, X_test, y_test, held_out, output, console)
    console.print(f"Done in {time.perf_counter() - begin:.0f} s.")
    return path


def progress(console: Any) -> Any:
    """A progress bar that leaves nothing behind."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def fit_all(console: Any, X: Any, y: Any, draws: int) -> dict[str, Any]:
    """The three fits to one split, each with a bar while it runs and a line when it is done."""
    models = {}
    for name, inference in schemes(draws).items():
        with progress(console) as bar:
            job = bar.add_task(name)

            def show(step: Any, bar: Any = bar, job: Any = job) -> None:
                bar.update(job, description=step.stage, total=step.total, completed=step.iteration)

            start = time.perf_counter()
            models[name] = model = fit(inference, X, y, 0, [show])
            seconds = time.perf_counter() - start
        what = {"vb": f"bound {model.elbo_:.1f}", "em": f"log posterior density {model.elbo_:.1f}"}
        if name == "gibbs":
            what[name] = f"largest R-hat {model.summary()['r_hat'].max():.2f}"
        unit = "draws a chain" if name == "gibbs" else "passes"
        console.print(f"  {name:6s}{seconds:6.2f} s, {model.n_iter_} {unit}, {what[name]}")
    return models


def coefficients(models: dict[str, Any], X: Any, top: int) -> Any:
    """Table of the coefficients surest of their sign, per standard deviation of the column."""
    from rich.table import Table

    level = 0.9
    frames = {
        name: models[name].summary(level).drop(index="intercept").mul(X.std(ddof=0), axis=0)
        for name in ("vb", "gibbs")
    }
    vb = frames["vb"]
    order = (vb["mean"].abs() / vb["sd"]).sort_values(ascending=False).index[:top]
    label = models["vb"].classes_[1]
    out = Table(title=f"vb: the {top} coefficients surest of their sign, for {label}")
    out.add_column("measurement")
    for name in ("mean", "sd", f"{level:.0%} interval", "the same by gibbs"):
        out.add_column(name, justify="right")
    for name in order:
        ends = [
            f"{f.at[name, 'lower']:+.2f} to {f.at[name, 'upper']:+.2f}" for f in frames.values()
        ]
        out.add_row(name, f"{vb.at[name, 'mean']:+.2f}", f"{vb.at[name, 'sd']:.2f}", *ends)
    out.caption = (
        "per standard deviation of the column; mean-field intervals are narrower than the "
        "posterior's, which gibbs draws from"
    )
    return out


def table(frame: Any, repeats: int) -> Any:
    """Means of the scores with standard errors, one row per method."""
    from rich.table import Table

    by = frame.groupby("method", sort=False)
    mean, error = by.mean(), by.std(ddof=1).fillna(0.0) / np.sqrt(repeats)
    out = Table(title=f"Held-out scores over {repeats} random splits, mean ± standard error")
    out.add_column("method", no_wrap=True)
    for name in mean.columns:
        out.add_column(name, justify="right")
    for method, row in mean.iterrows():
        texts = [f"{100 * row['test error']:.1f} ± {100 * error.loc[method, 'test error']:.1f} %"]
        for name in ("log loss", "Brier score"):
            texts.append(f"{row[name]:.3f} ± {error.loc[method, name]:.3f}")
        out.add_row(str(method), *texts, f"{row['seconds']:.2f}")
    return out


def picture(
    models: dict[str, Any], X: Any, y: Any, held_out: dict[str, Any], output: Path, console: Any
) -> Path | None:
    """Four panels: three about the first split, and reliability over all of them."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        console.print("No figure was drawn: pip install 'bayesvm[plot]'")
        return None
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
    axes[1, 0].set_title(f"Reliability: {held_out['vb'].shape[1]} held-out predictions")
    ProbabilityDisplay.from_estimator(vb, X, y, ax=axes[1, 1])
    axes[1, 1].set_title(f"{len(X)} test rows: probability, interval, outcome (vb)")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    output.mkdir(parents=True, exist_ok=True)
    path = output / "bayesvm-demo.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
