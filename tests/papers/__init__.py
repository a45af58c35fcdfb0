"""Plain transcripts of the published algorithms, used as oracles in the tests.

Nothing here imports the library under test.  The code is written for reading:
dense matrices, explicit inverses, one line per line of the paper.  References:

(L) J. Luts and J. T. Ormerod, Mean field variational Bayesian inference for
    support vector machine classification, CSDA 73 (2014).
(P) N. G. Polson and S. L. Scott, Data augmentation for support vector machines,
    Bayesian Analysis 6 (2011) 1-23.
(C) H. Chen, P. Tiňo and X. Yao, Probabilistic classification vector machines,
    IEEE Transactions on Neural Networks 20 (2009) 901-914.

The pseudo-likelihood of a row is exp(-2 c max(0, 1 - y f)), c the case weight.
"""
