"""Grimberg, "Privacy-preserving and personalized federated machine learning for medical data", EPFL, 2020.

Section 5: who survives the Titanic, told by nine features, is learned by four agents (AGE_STRICT: ages 0-20,
21-35, 36+ and unknown; AGE_SOME: two agents share 0-35). Each agent is the user once. The user's rows are cut
into halves to train and to test on; the others train on all of theirs. Three schemes, 30 rounds, one batch a
round and agent: Global (everybody's gradients alike), Weight Erosion, Local (the user's alone). The study is
repeated on four real hospitals, which the paper does not have, with the preset `text` alone.

The paper's constants: p_d = 0.01, p_s = 0.2, server step 1, learning rate 3, batches of 161 (AGE_STRICT) and
132 (AGE_SOME), a loss of half the cross-entropy plus 0.5e-3 |θ|². With cross-entropy itself the same steps
have half the rate and twice the decay:

    θ - 3 (½ ∇CE + 1e-3 θ)  =  θ - 1.5 (∇CE + 2e-3 θ)          RATE, DECAY

The four hospitals have batches of 62, half of the smallest. Seeds draw the first model, the halves and the
order of rows; the paper has one seed, 278, of another generator.

`text`: a batch is drawn anew each round; halves keep the classes' shares; one learning rate for all schemes;
a passenger of unknown age is an adult.

`as-run`, what the author's program did otherwise (that the other agents' rows are shuffled as the user's are,
and that AGE_SOME has the learning rates of AGE_STRICT, is our reading):
    batches come in a fixed order, which is drawn once                             shuffle=False
    the test set is the first 1 + ⌊n/2⌋ of the user's shuffled rows                halves
    ⌊(r-1) b / |S_i|⌋ are the completed epochs: rounds over batches, short ones whole   CompletedEpochs
    Global has learning rate 0.07 and adds up along a wrong axis                   wrong_average
    a passenger of unknown age is a minor by 0.2009                                Titanic("share")
    accuracy is the mean of those of the test set's batches, however short         by_batches

The last makes agent 2 of AGE_STRICT shine: its 162 test rows are a batch of 161 and one of 1, which alone
decides half of its accuracy.
"""

from __future__ import annotations

from coterie.papers.grimberg_2020.paper import PAPER

__all__ = ["PAPER"]
