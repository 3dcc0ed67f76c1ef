"""Words of runs that tests audit."""

DIGITS = ("--data", "digits", "--split", "iid")
LEAKY = (*DIGITS, "--clients", "30", "--model", "mlp", "--mlp.hidden", "128", "--method", "finetune")
LEAKY += ("--finetune.tune", "10", "--rounds", "20")
LEAKY += ("--sgd.epochs", "5", "--sgd.lr", "0.2", "--sgd.batch", "16")
PRIVATE = (*DIGITS, "--clients", "8", "--rounds", "6", "--kernel", "dp(sgd)", "--sgd.batch", "157")
PICTURES = (*DIGITS, "--clients", "4", "--model", "erosion-cnn", "--rounds", "1")
