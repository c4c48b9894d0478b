"""Keeps things safe on disk: atomic files, digests of values, one owner at a time."""
