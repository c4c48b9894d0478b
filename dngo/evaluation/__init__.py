"""Evaluating points: claim each one, start it, supervise it, and judge it to exactly one outcome."""
