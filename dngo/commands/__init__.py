"""Commands of `dngo` that need more than a few lines: a module for each group of them."""
