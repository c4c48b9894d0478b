"""When to stop an evaluation that reports while it runs: rules that read curves, and no clock."""
