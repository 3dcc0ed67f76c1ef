"""Yang and Elkoushy, "Guiding federated learning with low rank metrics", 2023.

CIFAR-10, CIFAR-100 and TinyImageNet-200 are dealt to four clients by Dirichlet draws with alpha 0.3 and
0.0001. A ResNet-18 is trained with Adam by FedAvg, FedKG and FedUnique, three trials each. A figure is the
mean of the four clients' test accuracies, the best of all rounds: chosen by the test set it is measured on,
and so too high. The last round's stands beside it.

Cells are data-alpha/method, such as cifar10-0.3/fedkg. No program was published, so there is no preset
`as-run`. What the text leaves open, and what is taken here: a round is one local epoch, of 250 in all; Adam
has rate 1e-3 and is made anew in each round; batches of 128; beta = 0.8 and zeta = 1, natural in programs of
the same school; a client is tested on its own part of the published test set (TinyImageNet: validation set),
dealt in the proportions of its training rows; batch norm is averaged like all else.

Scale `small`: 3,000 pictures of CIFAR-10 and 1,000 to test on, the CNN of karlsson-2021, batches of 32, 15
rounds. Not a narrow ResNet, whose layers in so few rounds are too close to their first, random weights for
the factorisation to find anything in five of six of them; then the guided methods are FedAvg. Scale `tiny`:
the digits of scikit-learn, the last 500 to test on, and the CNN of gengler-2020, 8 rounds, to try the
programs.
"""

from __future__ import annotations

from coterie.papers.yang_2023.paper import PAPER

__all__ = ["PAPER"]
