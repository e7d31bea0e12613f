"""A device whose seconds are counted instead of spent, for what tuning costs: see `tuning_price.py`."""
