"""Tests on a real Slurm; a package, so that its fixtures do not hide those of the other tests."""
