"""Karlsson and Onoszko, "PENS: Leveraging Data Heterogeneity in Federated Learning", 2021.

CIFAR-10 is dealt in equal parts to 50, 200 or 1,000 clients; the pictures of one half of them are turned, so
that there are two clusters. Each client has 875, 125 or 25 pictures to train on and 125, 125 or 25 to
validate, and is tested on all 10,000 test pictures, turned as its own are. The network is `pens-cnn`, batches
of 8, rate 1e-3, 3 local epochs, at most 333 rounds; early stopping with patience 50 and window 5. Everybody
averages with 20 others; greedy methods with 4 of 20 sampled; PENS has 20 rounds of step 1, with 2, 10 or 50
epochs and 1 of 5, 4 of 20 or 4 of 20 picked, 10 samplings a round, and then 333 of step 2.

Cells are group/method. Groups: `common-N` and `independent-N` initialisation with N clients (Tables 4.2 and
4.3, figures 4.2 and 4.3), `iid-N` with no picture turned (Table 4.1), and `selected`, `epochs`, `rate`, in
which random on IID data has one of its options changed (figure 4.1; its values are ours, for the thesis gives
them in a picture alone). Local training is that of one client of each cluster; central training that of one
client that has all the pictures of a cluster (`central-half`) or of both (`central-all`), tested on both.

`text`: rotation by 180 degrees, SGD, all train and then average one after the other (order thesis), as in
section 3.4: figures are of averaged models. Algorithms 1 to 5 differ: they end a round with local training,
and figures would be of models trained after averaging (order trained), which are some points lower.

`as-run`, what the authors' program did otherwise:
    pictures are flipped, top to bottom
    Adam, made anew after each averaging
    one client after the other averages and trains at once (order program); nobody trains before
    step 1 has ⌊1250 / n⌋ + 1 epochs, n being the pictures to train on
    a neighbour needs more than m_selected R n_samplings / (N - 1) - 1 picks           LessOne

Table 3.2 gives greedy 20 for m_selected and nothing for m_sample; section 5 has 4, as for epsilon-greedy, and
so has this.

Scale `small`: 2,400 pictures of CIFAR-10 for 16 or 32 clients, 1,000 to test on, the network with 8 channels
for 32, 12 rounds of which 5 are PENS's step 1, 4 others to average with, greedy 1 of 5; SGD has rate 0.05, or
nothing would move in so few rounds. Scale `tiny`: the digits of scikit-learn and an MLP, 8 or 16 clients, 8
rounds, to try the programs. Neither stops early, their runs being shorter than any patience.
"""

from __future__ import annotations

from coterie.papers.karlsson_2021.paper import PAPER

__all__ = ["PAPER"]
