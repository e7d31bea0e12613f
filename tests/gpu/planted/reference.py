"""What `planted` computes."""


def planted(x, **_):
    return 2 * x
