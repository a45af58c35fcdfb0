"""Largest differences between estimators and their ONNX models: the table of docs/onnx.md.

``python docs/onnx_table.py`` from the root of a checkout fits five estimators to two and three
classes, predicts by the estimator and by onnxruntime, and rewrites the table.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning

import bayesvm
from bayesvm.terms import Columns, Intercept, Process

PAGE = Path(__file__).with_name("onnx.md")
TERMS = [("level", Intercept()), ("smooth", Process(0, n_inducing=20)), ("rest", Columns())]
ESTIMATORS = [
    bayesvm.BayesianLinearSVC(),
    bayesvm.BayesianSVC(random_state=0),
    bayesvm.PCVC(random_state=0),
    bayesvm.RVC(random_state=0),
    bayesvm.AdditiveSVC(TERMS, random_state=0),
]


def differences(model, X, y):
    """Largest difference of probabilities, of ends of intervals; labels; kB; nodes."""
    model.fit(X, y)
    new = np.vstack([X, X + 2.0 * X.std(axis=0), 3.0 * X, -10.0 * X])  # near, far, far away
    written = bayesvm.to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    label, proba, *ends = session.run(None, {"X": new})
    gap = np.abs(proba - model.predict_proba(new)).max()
    wide = np.abs(np.stack(ends) - model.predict_interval(new)).max()
    same = np.mean(label == model.predict(new))
    return gap, wide, same, len(written) / 1000


def main():
    """Fit, compare, and write the table."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    lines = [
        "| estimator | probabilities, 2 classes | intervals | probabilities, 3 classes | intervals "
        "| same labels | kB, 2 and 3 classes |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in ESTIMATORS:
        cells = []
        for load in (load_breast_cancer, load_wine):
            X, y = load(return_X_y=True)
            cells.append(differences(model, X[:178, :6], y[:178]))
        (p2, i2, s2, k2), (p3, i3, s3, k3) = cells
        lines.append(
            f"| `{type(model).__name__}` | {p2:.0e} | {i2:.0e} | {p3:.0e} | {i3:.0e} "
            f"| {100 * min(s2, s3):.0f} % | {k2:.0f}, {k3:.0f} |"
        )
        print(lines[-1])
    text = PAGE.read_text(encoding="utf-8")
    block = "<!-- onnx: differences -->\n" + "\n".join(lines) + "\n<!-- end -->"
    PAGE.write_text(
        re.sub(r"<!-- onnx: differences -->.*?<!-- end -->", block, text, flags=re.DOTALL),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
