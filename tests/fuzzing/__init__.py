"""What `tests/fuzz.py` damages, a module for each kind of file, and how the commands are watched."""
