"""The amplitude of several classes, by folds."""

import numpy as np
import pytest

from bayesvm.core.arrays import one_against_rest
from bayesvm.kernels import RBF, Scaled
from bayesvm.likelihoods import SoftHinge
from bayesvm.predictive.link_fitting import SoftmaxFamily, score_link
from bayesvm.processes import process as processes
from bayesvm.processes.amplitude import FOLDS, FoldedAmplitude, held_out, part_of, predicted
from bayesvm.processes.evidence import Search
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.process import Prior
from bayesvm.processes.shared import ClassLabels, fit_shared, joined
from bayesvm.processes.sites import Labels
from bayesvm.processes.tune import best_amplitude

SITE = SoftHinge().tight


def labelled(n=60, classes=3, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    X = rng.normal(size=(n, 2)) * 0.5 + np.column_stack([codes, codes % 2])
    wrong = rng.random(n) < noise
    codes = np.where(wrong, rng.integers(0, classes, n), codes)
    each = one_against_rest(codes, classes)
    machines = tuple(Labels(y, np.ones(n), np.arange(n), n) for y in each)
    return LabelledPoints(X, machines, 4.0, 2.0), codes


def test_every_copy_of_a_row_is_left_out_once():
    rng = np.random.default_rng(0)
    c = np.array([1.0, 1.0, 2.0, 3.0, 7.0, 0.4, 2.5, 1.0, 1.0, 1.0])
    out = held_out(c, np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2]), 3, rng)
    np.testing.assert_allclose(out.sum(axis=1), c)
    assert np.all(out >= 0)
    assert np.all(out[3] == 1.0)  # three copies, one a fold
    assert sorted(out[4]) == [2.0, 2.0, 3.0]
    assert np.count_nonzero(out[5]) == 1
    np.testing.assert_allclose(out[7:].sum(axis=0), 1.0)  # a class has a row in every fold


def test_remainders_of_the_classes_are_spread_over_the_folds():
    """Seven classes of four rows: each has two in one fold, and no fold has two rows more."""
    codes, c = np.arange(28) % 7, np.ones(28)
    out = held_out(c, codes, 3, np.random.default_rng(0))
    each = np.stack([out[codes == k].sum(axis=0) for k in range(7)])
    np.testing.assert_array_equal(np.sort(each, axis=1), np.tile([1, 1, 2], (7, 1)))
    assert np.ptp(out.sum(axis=0)) == 1
    renamed = held_out(c, (3 * codes + 1) % 7, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(out, renamed)


@pytest.mark.parametrize("Z", [None, 10])
def test_loss_is_that_of_fits_without_the_fold(Z):
    seen, codes = labelled()
    prior = Prior(Scaled(1.0, RBF(1.0)), 4.0, None if Z is None else seen.X[:Z])
    score = FoldedAmplitude(prior, seen, SITE, Search(), 3)
    at, pool = 1.3, []
    process = Prior(Scaled(float(np.exp(at)), RBF(1.0)), 4.0, prior.Z)
    for k in range(FOLDS):
        rest, left = np.flatnonzero(score.out[:, k] == 0), np.flatnonzero(score.out[:, k])
        each = tuple(Labels(m.y[rest], m.c[rest], np.arange(rest.size), rest.size)
                     for m in seen.machines)  # fmt: skip
        fits = fit_shared(process.at(seen.X[rest]), ClassLabels.of(each), SITE, tol=1e-4)
        both = process.at(np.vstack([seen.X[rest], seen.X[left]]))
        m, v = predicted(both, fits, np.arange(rest.size), rest.size + np.arange(left.size))
        pool.append((codes[left], m, np.repeat(v[:, None], 3, axis=1), np.ones(left.size)))
    loss = score_link(SoftmaxFamily(), *(np.concatenate(x) for x in zip(*pool)))
    assert score(at) == pytest.approx(0.5 * at**2 + loss, rel=1e-5)
    assert score(at) == score.losses[at]


def test_a_part_of_a_process_is_that_of_some_points():
    seen, _ = labelled()
    some = np.array([3, 8, 9, 40])
    for Z in (None, seen.X[:7]):
        prior = Prior(Scaled(2.0, RBF(1.0)), 4.0, Z)
        part, whole = part_of(prior.at(seen.X), some), prior.at(seen.X[some])
        a = np.arange(4.0)
        np.testing.assert_allclose(part.times(a), whole.times(a), atol=1e-6)


def test_noisy_labels_have_a_small_amplitude():
    """Moments that leave out single rows, for fixed sites, favour the largest amplitudes here."""
    kernel = Scaled(4.0, RBF(0.3))
    found = {}
    for noise in (0.0, 0.6):
        seen, _ = labelled(150, noise=noise)
        score = FoldedAmplitude(Prior(kernel, 4.0), seen, SITE, Search(), 0)
        found[noise] = best_amplitude(score, 0.0).at
    assert found[0.6] < found[0.0]
    assert found[0.6] < np.log(4.0)


def test_single_precision_gives_the_same_loss(monkeypatch):
    seen, _ = labelled(noise=0.2)
    prior = Prior(Scaled(1.0, RBF(1.0)), 4.0)
    losses = [FoldedAmplitude(prior, seen, SITE, Search(), 3)(2.0)]
    monkeypatch.setattr(processes, "LIGHT", 10)
    losses += [FoldedAmplitude(prior, seen, SITE, Search(), 3)(2.0)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[1] != losses[0]


def test_a_fit_may_start_where_folds_have_ended():
    seen, _ = labelled(150, noise=0.1)
    prior, labels = Prior(Scaled(1.0, RBF(1.0)), 4.0), ClassLabels.of(seen.machines)
    score = FoldedAmplitude(prior, seen, SITE, Search(), 3)
    for at in (1.0, 3.0, 5.0):
        score(at)
    kernel = Scaled(float(np.exp(score.best[0])), RBF(1.0))
    near = joined(score.sites_at(kernel))
    process = Prior(kernel, 4.0).at(seen.X)
    cold, warm = (fit_shared(process, labels, SITE, start, 1e-7) for start in (None, near))
    np.testing.assert_allclose(warm[0].m, cold[0].m, atol=1e-3)
    short = [abs(fits[0].path[0] - cold[0].bound) for fits in (cold, warm)]
    assert short[1] < 0.5 * short[0]


def test_class_weights_do_not_cut_rows():
    """A row that counts nine times is left out by one fold, with nothing of it left behind."""
    codes = np.r_[np.zeros(20, dtype=int), np.ones(40, dtype=int)]
    unit, copies = np.where(codes == 0, 8.7, 0.63), np.ones(60)
    copies[[3, 30]] = 2.0, 0.5
    out = held_out(copies * unit, codes, 3, np.random.default_rng(0), unit)
    plain = held_out(copies, codes, 3, np.random.default_rng(0))
    np.testing.assert_allclose(out, plain * unit[:, None])
    assert np.all((out == 0.0).sum(axis=1)[copies == 1.0] == 2)
    assert np.all(out.max(axis=1)[copies == 1.0] == unit[copies == 1.0])
