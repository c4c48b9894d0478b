"""When to stop an evaluation that reports as it runs: rules on curves, without a clock."""
