"""What liars do to rules and to personal methods: a study of our own.

Every method trains once with nobody lying and once for each way of lying (`coterie.nets.liars`) and each
share of liars, all in their usual strength, with the same clients, rows, first weights and batches for a
seed. Looked at are the honest clients alone: their mean accuracy and the worst of them on their own test
rows, and both less what the very same clients have when nobody lies. Liars are drawn anew for each seed. Who
has to guess how many lie is left with its default (`f = auto`), as a user would.

    digits      10 clients, Dirichlet alpha = 1 over classes, logistic regression
    mnist       the same with 2,000 training and 2,000 test pictures and a small network
    hospitals   the four of heart disease, as they are: one of four lies

`losses` go with wrong labels, as telling wrong losses alone hurts nobody: that cell is label-flip and losses
together. Methods run with their defaults, but for the rounds and the rate of the local work, which are the
study's.
"""

from coterie.papers.robustness.study import PAPER

__all__ = ["PAPER"]
