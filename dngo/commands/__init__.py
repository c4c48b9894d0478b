"""The commands of `dngo`: a module for each group of them, which adds them to the parser and runs them."""
