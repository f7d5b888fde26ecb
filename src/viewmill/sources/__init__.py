"""Changes in: how other systems write down what happened to a row."""
