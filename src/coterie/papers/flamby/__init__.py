"""FLamby (Ogier du Terrail et al., 2022, "FLamby: datasets and benchmarks for cross-silo federated learning
in realistic healthcare settings", NeurIPS datasets and benchmarks): two of its federations run again, its
methods first and then personal ones on the same rows.

**Heart disease** (Fed-Heart-Disease): four hospitals, slope, ca and thal left out, then rows with an unknown
value; a cholesterol of 0 counts as a number. 13 inputs: chest pain and resting ECG one-hot without their
first value. 66 % of a hospital's rows are trained on, drawn by scikit-learn's
`train_test_split(random_state=43)`, stratified where each class has more than two rows. All inputs, flags
too, are standardised by the mean and deviation of the hospital's own training rows; for the pooled model and
the pooled test set by those of all. Linear 13-1, logistic loss, batches of 4. Pooled and alone: Adam, 0.001,
50 epochs. Others: SGD, 100 updates a round, 15 rounds.

**Breast cancer** (Fed-TCGA-BRCA): six regions, its fixed split (source `tcga-brca`, fold=flamby), age in
years. Linear 39-1, Cox's loss, batches of 8. Pooled and alone: Adam, 0.1, 30 epochs. Others: 5 rounds.

First weights are those of FLamby's seeds 42 to 46. Rates are those that it published as the best of a search;
beta1 = 0.9, beta2 = 0.999, tau = 1e-8. `as-run` is what its program does otherwise than its text says: its
`Cyclic` never hands the model on (flamby/strategies/cyclic.py, `perform_round`): each client trains a model
of its own when its turn comes, one client a round, and the first client's is tested.
"""

from coterie.papers.flamby.study import PAPER

__all__ = ["PAPER"]
