"""Hostile and damaged files."""

import io
import json
import zipfile

import numpy as np
import pytest

import bayesvm
from bayesvm import PCVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC
from tests.campaign.estimators import table, terms
from tests.campaign.judge import require

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("skops.io")

X, Y = table(n=40)
MODELS = {
    "linear": lambda **how: BayesianLinearSVC(**how),
    "kernel": lambda **how: BayesianSVC(n_inducing=6, tune=False, random_state=0, **how),
    "vectors": lambda **how: PCVC(tune=False, **how),
    "additive": lambda **how: AdditiveSVC(terms(), random_state=0, **how),
}
each = pytest.mark.parametrize("name", MODELS)


def damaged(data, rng):
    """Bytes changed, taken out, put in or cut off."""
    data = bytearray(data)
    i = int(rng.integers(len(data)))
    match int(rng.integers(5)):
        case 0:
            data[i] ^= 1 << int(rng.integers(8))
        case 1:
            del data[i : i + int(rng.integers(1, 200))]
        case 2:
            data[i:i] = rng.bytes(int(rng.integers(1, 200)))
        case 3:
            del data[i:]
        case 4:
            j = int(rng.integers(len(data)))
            data[i : i + 64] = data[j : j + 64]
    return bytes(data)


def places(value, path=()):
    """Every place in a nest of dicts and lists."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


JUNK = (None, 5, -1, 1e30, "", "os.system", "builtins", [], {}, True, "../etc/passwd", [1e9, 1e9])
CODE = ("os.system", "builtins.eval", "subprocess.Popen", "bayesvm.data.storage.load", "numpy.load")


def edited(data, rng):
    """The list of contents with one entry replaced, left out or pointed at code."""
    source = zipfile.ZipFile(io.BytesIO(data))
    parts = {name: source.read(name) for name in source.namelist()}
    schema = json.loads(parts["schema.json"])
    spots = list(places(schema))
    where, key = spots[int(rng.integers(len(spots)))]
    match int(rng.integers(4)):
        case 0:
            where[key] = JUNK[int(rng.integers(len(JUNK)))]
        case 1 if isinstance(where, dict):
            del where[key]
        case 2:
            classes = [(w, k) for w, k in spots if k in ("__class__", "__module__", "__loader__")]
            where, key = classes[int(rng.integers(len(classes)))]
            module, _, attribute = CODE[int(rng.integers(len(CODE)))].rpartition(".")
            where[key] = module if key == "__module__" else attribute
        case _:
            other, k = spots[int(rng.integers(len(spots)))]
            where[key] = json.loads(json.dumps(other[k]))
    parts["schema.json"] = json.dumps(schema).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:  # as save writes
        for name, content in parts.items():
            target.writestr(name, content)
    return out.getvalue()


@each
@pytest.mark.parametrize("harm", [damaged, edited], ids=lambda f: f.__name__)
def test_a_model_file(name, harm, tally, tmp_path, monkeypatch):
    canary = []
    monkeypatch.setattr("os.system", lambda *a: canary.append(a))
    monkeypatch.setattr("subprocess.Popen", lambda *a, **k: canary.append(a))
    model = MODELS[name]().fit(X, Y)
    whole = model.predict_proba(X)
    bayesvm.save(model, tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    for seed in range(60):
        (tmp_path / "harmed").write_bytes(harm(data, np.random.default_rng(seed)))

        def action():
            back = bayesvm.load(tmp_path / "harmed")
            require(not canary, f"code was run: {canary}")
            require(hasattr(back, "fit"), f"load returned {type(back).__name__}")
            try:
                same = np.allclose(back.predict_proba(X), whole, equal_nan=True)
            except Exception as error:  # an edited model may be broken inside, not dangerous
                same = harm is edited or f"predict raised {error!r}"
            require(same is True or harm is edited, f"another model was loaded: {same}")

        tally.judge(f"{name}, {harm.__name__}, {seed}", action, None)
        require(not canary, f"code was run: {canary}")
    tally.close()
