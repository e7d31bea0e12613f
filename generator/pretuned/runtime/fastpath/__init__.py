"""The fast path: for each kernel and array library one function, written out for just that call.

`source` writes it, `paths` opens one for a library and fills in the problems that it knows, and `packed` keeps the
parameters of calls that come again. PRETUNED_FAST_PATH=0 turns it off.
"""
