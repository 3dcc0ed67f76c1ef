"""Gengler, Beaussart and Yuan, "Personalized Federated Image classification using Weight Erosion", 2020.

MNIST is dealt to 10, 20, 50 or 100 agents by seven label distributions, A to G, each agent's shifted by one
digit (see the split `shift`). Agent 0 asks for a model: by Weight Erosion, by federated averaging, by
training alone. SGD, rate 0.1, batches of 32, an epoch a round, 30 rounds; p_d = 0.1 / N, p_s = 2; averages
are unweighted. A figure of Table II is agent 0's best test accuracy of all rounds: chosen by the test set it
is measured on, it is too high, by the more the noisier the curve. The last round's stands beside it.

Agent 0 is tested on int(s(d) n_d) of the n_d published test images of each digit d, s being its own shares:
922 to 1,038 images, for any number of agents. The others share what is left by their own distributions;
nothing here depends on them.

`text`: rows are shuffled and each is dealt at most once; agent 0's test images are drawn; the size penalty
counts how often each sample has been used on average, which is how Grimberg, 2020, defines its term: r - 1
times before round r, as a round is an epoch.

Equation 2 has ⌊(r-1) 32 / |S_i|⌋ for that, with the batch size for b. To the letter (AsStated) a round would
be one batch: the term is then 0 in all rounds for 6,000 samples an agent, and 1 from round 20 on for 600.
B/100 is run with this reading too, as a remark.

`as-run`, what the authors' program did otherwise:
    each digit is cut, in file order, into chunks of ⌊n_d / 99⌋ images, of which the first 100 are dealt; an
    agent with a share of c chunks takes ⌈c⌉, and the next one begins ⌊c⌋ further: where c is no whole
    number, neighbours have a chunk in common                                          deal_chunks
    agent 0's test images are the first of each digit                                  tested
    in the size penalty, |S_i| is the number of batches: ⌊(r-1) 32 / batches⌋          BatchesForSamples

The rule for chunks is worked out from counts: it gives the 59,907 images that are dealt once where all c are
whole, and 602 duplicates for each pair of neighbours where they are not (4,214 for C/20, 23,478 for C/100,
11,438 for G/20, 29,498 for G/50, 59,598 for G/100).

Scale `small`: the digits of scikit-learn, standardised, the last 500 to test on, 10 or 20 agents, batches of
8, 15 rounds. It shows that everything runs; its figures have nothing to do with the paper's.
"""

from __future__ import annotations

from coterie.papers.gengler_2020.paper import PAPER

__all__ = ["PAPER"]
