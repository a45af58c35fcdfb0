"""Model files that somebody has changed."""

import io
import os
import zipfile

import numpy as np
import pytest
import skops.io as sio
from scipy import sparse

import bayesvm
from bayesvm import BayesianLinearSVC

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning"),
]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((80, 4))
Y = (X @ [1.0, -2.0, 0.5, 0.0] + RNG.standard_normal(80) > 0).astype(int)


def forged(file, change):
    """A saved model with its largest array, or the archive, changed."""
    bayesvm.save(BayesianLinearSVC().fit(X, Y), file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(file, members)


def with_shape(shape):
    def change(file, members):
        name = next(name for name in members if name.endswith(".npy"))
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f8", "fortran_order": False, "shape": shape}
        )
        members[name] = head.getvalue() + bytes(80)
        with zipfile.ZipFile(file, "w") as archive:
            for each, data in members.items():
                archive.writestr(each, data)

    return change


def compressed(file, members):
    name = next(name for name in members if name.endswith(".npy"))
    array = io.BytesIO()
    np.save(array, np.zeros(10**6))
    members[name] = array.getvalue()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in members.items():
            archive.writestr(each, data)


@pytest.mark.parametrize(
    "change",
    [with_shape((10**13,)), with_shape((10**10, 10**10)), compressed],
    ids=["80 TB", "1e20", "compressed"],
)
def test_sizes_in_a_model_file_are_checked_before_memory_is_taken(change, tmp_path):
    forged(tmp_path / "model", change)
    with pytest.raises(ValueError, match=r"model is not a file written by bayesvm.save, or it is"):
        bayesvm.load(tmp_path / "model")


def test_sparse_arrays_in_a_model_file_inflate_within_limits(tmp_path):
    model = BayesianLinearSVC()
    model.extra_ = sparse.csr_array(
        (np.zeros(6 * 10**6), np.zeros(6 * 10**6, int), [0, 6 * 10**6]), shape=(1, 6 * 10**6)
    )
    held = {"format": 2, "version": bayesvm.__version__, "model": model}
    sio.dump(held, tmp_path / "model")
    with pytest.raises(ValueError, match="too large when inflated"):
        bayesvm.load(tmp_path / "model")
    model.extra_ = sparse.csr_array(X)
    sio.dump(held, tmp_path / "model")
    assert np.array_equal(bayesvm.load(tmp_path / "model").extra_.toarray(), X)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"format": 2, "version": "0.1.0"}, "holds no model"),
        ({"format": 2, "version": "0.1.0", "model": 5}, "holds no model.* int was found"),
        ({"format": 2, "version": "99.0", "model": BayesianLinearSVC()}, "bayesvm 99.0, which is"),
        ({"format": 2, "model": BayesianLinearSVC()}, "has no version of bayesvm"),
    ],
    ids=["no model", "five", "too new", "no version"],
)
def test_a_model_file_holds_a_model_of_a_known_version(held, message, tmp_path):
    sio.dump(held, tmp_path / "model")
    with pytest.raises(ValueError, match=message) as found:
        bayesvm.load(tmp_path / "model")
    assert str(tmp_path / "model") in str(found.value)


def test_what_is_no_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="type int"):
        bayesvm.save(5, tmp_path / "model")
    assert os.listdir(tmp_path) == []
