"""Evaluating points: claimed, started, supervised, and judged to exactly one outcome each."""
