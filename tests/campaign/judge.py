"""Judging one case: what happened when something was tried."""

import linecache
import signal
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError

import bayesvm

RIGHT, CLEAR, UNCLEAR, WRONG, HANG = "right", "clear error", "unclear", "wrong", "hang"
VERDICTS = (RIGHT, CLEAR, UNCLEAR, WRONG, HANG)
LIMIT = 30.0  # seconds; the slowest right case takes about two

CLEAR_TYPES = (ValueError, TypeError, NotFittedError, AttributeError, ImportError)
OURS = (str(Path(bayesvm.__file__).parent), str(Path(sklearn.__file__).parent))
RAW_WARNINGS = ("encountered in", "Mean of empty slice", "Degrees of freedom", "ill-conditioned")


class Wrong(AssertionError):
    """A result that must not be."""


class TooLong(BaseException):
    """The time limit; no ``except Exception`` may swallow it."""


def require(truth, message):
    if not truth:
        raise Wrong(message)


class Tally:
    """Verdicts of one part of the campaign, counted; those that must not be, in full."""

    def __init__(self, part):
        self.part, self.counts, self.bad = part, Counter(), []

    def judge(self, name, action, due=RIGHT, limit=LIMIT):
        """Try ``action``; it returns if all is well and raises :class:`Wrong` if a result is bad.

        ``due`` is the verdict that must be, ``RIGHT`` or ``CLEAR``; ``None`` allows both.
        """
        verdict, detail = _judge(action, limit)
        if due == RIGHT and verdict == CLEAR:
            verdict, detail = WRONG, f"refused: {detail}"
        elif due == CLEAR and verdict == RIGHT:
            verdict, detail = WRONG, "accepted in silence"
        self.counts[verdict] += 1
        if verdict not in (RIGHT, CLEAR):
            self.bad.append(f"{verdict}: {name}: {detail}")

    def close(self):
        """Fail if a verdict must not be."""
        assert not self.bad, f"{len(self.bad)} of {self.counts.total()}\n" + "\n".join(self.bad)


def _judge(action, limit):
    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            action()
    except TooLong:
        return HANG, f"no end after {limit:g} s"
    except Wrong as error:
        return WRONG, str(error)
    except Exception as error:  # everything that a user could see is judged
        return (CLEAR if is_clear(error) else UNCLEAR), f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raw = [str(w.message) for w in caught if any(r in str(w.message) for r in RAW_WARNINGS)]
    return (UNCLEAR, f"warning: {raw[0]}") if raw else (RIGHT, "")


def is_clear(error):
    """Whether an error was raised on purpose, by this package or scikit-learn, in a few words.

    An error that numpy or Python raised inside a call says what broke there, not what the user
    should do.
    """
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename
    line = linecache.getline(file, trace.tb_lineno).strip()
    return (
        isinstance(error, CLEAR_TYPES)
        and not isinstance(error, UnicodeError)
        and file.startswith(OURS)
        and line.startswith("raise")
        and len(str(error)) > 15
    )


def require_valid(model, X):
    """Predictions that are finite, add up and agree with one another."""
    n, k = len(X), len(model.classes_)
    P = model.predict_proba(X)
    require(P.shape == (n, k), f"predict_proba has shape {P.shape}")
    require(np.all(np.isfinite(P)), "probabilities are not finite")
    require(P.min() >= 0 and P.max() <= 1, "probabilities are not in [0, 1]")
    require(np.allclose(P.sum(axis=1), 1, atol=1e-9), "probabilities do not add up to one")
    labels = model.predict(X)
    require(
        np.all(labels == model.classes_[P.argmax(axis=1)]), "predict is not the likeliest class"
    )
    f = np.asarray(model.decision_function(X))
    require(not np.isnan(f).any(), "decision_function is NaN")
    if k == 2:
        agree = (f > 0) == (labels == model.classes_[1])
        require(np.all(agree | (P[:, 0] == P[:, 1])), "decision_function contradicts predict")
    if hasattr(model, "predict_interval") and model.machines_[0].posterior.has_spread:
        low, high = model.predict_interval(X)
        inside = (low <= P + 1e-9) & (high + 1e-9 >= P)
        require(np.all(inside), "an interval does not hold its probability")
        require(low.min() >= 0 and high.max() <= 1, "an interval leaves [0, 1]")
