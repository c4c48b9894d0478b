"""When an evaluation that reports as it runs is to be stopped: rules on curves, without a clock."""
