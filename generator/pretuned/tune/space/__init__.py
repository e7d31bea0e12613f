"""The space of a kernel: its legal configurations, found without an object for each.

Spaces grow: 10 parameters with 5 values are 10^7 combinations, and going through them one by one takes a minute. So

- `columns` computes an expression for many rows at once;
- `enumeration` joins parameters one after another, and drops what the constraints refuse as early as it can;
- `points` numbers what is left as a matrix of codes, of all implementations and for all problems of a specialisation;
- `pruning` drops candidates whose binary takes more than a device has.
"""
