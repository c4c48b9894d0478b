"""The commands of `dngo`. Each group has a module that adds its commands to the parser and runs them."""
