"""Old base of nested parameters; see nested.py."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from .nested import changed as _changed
from .nested import flat as _flat


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """An estimator whose components can be tuned by name, as in ``prior__precision``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator and of its components.

        Parameters
        ----------
        deep : bool, default=True
            Also those of components that are objects: ``prior__precision``, ``inference__tol``,
            ``kernel__length_scale``, ``terms__x__standardize``.  Components given by name have
            none.

        Returns
        -------
        params : dict
            Values by name.
        """
        out: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, value in super().get_params(deep=False).items():
                out.update(_flat(name, value))
        return out

    def set_params(self, **params: Any) -> Any:
        """Set parameters of the estimator and of its components.

        Parameters
        ----------
        **params
            Values by name, as in :meth:`get_params`.  A component is replaced by one with the new
            values; it is not changed itself.

        Returns
        -------
        self : estimator
            The estimator.
        """
        own = super().get_params(deep=False) | params
        inner: dict[str, dict[str, Any]] = {}
        plain = dict(params)
        for key in params:
            head, _, rest = key.partition("__")
            if rest and head in own and not hasattr(own[head], "set_params"):
                inner.setdefault(head, {})[rest] = plain.pop(key)
        super().set_params(**plain)
        for name, changes in inner.items():
            setattr(self, name, _changed(name, getattr(self, name), changes))
        return self
