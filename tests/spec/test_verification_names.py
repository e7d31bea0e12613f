"""Names that a function of [verify] would be passed twice."""

from __future__ import annotations

from specs import faults


def test_a_dim_cannot_have_the_name_of_what_compare_is_passed(tmp_path):
    renamed = [
        ('["n"]', '["ref"]'),
        ('name = "n"', 'name = "ref"'),
        ("\nn = {", "\nref = {"),
        ("ceil_div(n,", "ceil_div(ref,"),
    ]
    renamed += [("n % vec", "ref % vec")]
    assert faults(tmp_path, *renamed) == []
    compare = ("[verify]\n", '[verify]\ncompare = "reference.py:scale"\n')
    assert faults(tmp_path, *renamed, compare) == [
        (
            "scale.toml: verify.compare: is passed 'ref' by pretuned, and by the dim or specialisation of that name; "
            "rename it"
        )
    ]
