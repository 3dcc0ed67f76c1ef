"""Makni, "Deriving FL-SWAG as a one-shot method for the sake of calibration and privacy protection", 2022.

Ten clients of different sizes, each with a favourite class, train alone on MNIST, FashionMNIST or CIFAR-10
and send a Gaussian once. Cells are what is trained and on what:

    cancer/wisconsin        section 6: SWAG beside HMC, see `cancer.py`
    logistic/DATA           the table of 7.1: ten clients, FL-SWAG, four averages
    common/DATA             its last line: a logistic regression on all data in one place
    lenet/DATA              the table of 8.3 after a server's pretraining; resnet/cifar10 likewise
    sgld/DATA, psgld/DATA   the calibration table's rows beside FL-SWAG, on all data in one place

Everybody is tested on the published test set. Clients of a cell are trained once, and everything that can be
made of what they sent is scored: see `aggregates.py`.

Facts of the authors' program, used in both presets: rate .01, constant; batches of 64; 10 plain epochs and
20 collecting, one state an epoch; the network that it calls LeNet5. The server trains 20 epochs, its rate
falling from .1 to .005. Of the LeNet the text says 20 epochs, of CIFAR-10 30, which may be the collecting
ones or all; the epochs of logistic regressions are not known.

    preset    text                                              as-run
    server    learns from a fifth of each client's rows,        learns from all clients' rows
              which the client gives up
    clients   train the last layer, on frozen features          train all layers, from the server's, with the
                                                                last layer's bias drawn afresh
    epochs    10 plain, 20 collecting                           on FashionMNIST the LeNet's clients 1 and 5
    batches   in a new order each epoch                         in the rows' order, for FL-SWAG's clients
    moments   begin with the state before collecting            have collected states only
    draws     from the Gaussian                                 with noise variance · z
    sgld,     as their papers have them, on a whole LeNet,      one program for both: psgld with decay .95, in
    psgld     10 epochs; of the second half 30 states           which FashionMNIST had no noise at all (and
                                                                MNIST none for 3,000 steps; here at once)

Rates of the samplers are not known either: here .1 for SGLD and .001, in units of its metric, for pSGLD,
whose 1e-2 in the program is taken for what is added to the root of squared gradients.

CIFAR-10: the authors' ResNet-18 weights are not published; a ResNet-18 is trained here in the same way as the
LeNet, on clients' data as the preset says, and its last layer is what clients train under both presets, for
the program did so too. SGLD and pSGLD then sample that layer.

Scale `small`: 6,000 pictures and 2,000 to test on, a ResNet-18 of width 8. Scale `tiny`: the digits of
scikit-learn and an MLP for both networks, to try the programs.
"""

from __future__ import annotations

from coterie.papers.makni_2022.paper import PAPER

__all__ = ["PAPER"]
