"""One file per competitor, one function in each.

``fit(X, y, seed)`` returns something with ``predict`` and perhaps ``predict_proba``;
``prepare(X, y, seed, ...)`` returns a call to be timed that predicts nothing;
``draw(X, y, seed, ...)`` returns draws of a posterior.
"""
