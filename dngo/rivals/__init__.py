"""Other programs as proposers, under the same archive, resume and replay: to compare with."""
