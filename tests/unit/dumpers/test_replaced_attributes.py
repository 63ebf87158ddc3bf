"""What stands in for attributes while a dump is made is gone afterwards, also where it was put twice or inherited."""

from __future__ import annotations

from probe_flow.dumpers.replaced_attributes import ReplacedAttributes


class Base:
    shared = "of base"
    own = "of base"


class Child(Base):
    own = "of child"


def test_everything_is_as_it_was() -> None:
    before = dict(vars(Child))
    replaced = ReplacedAttributes()
    for value in ("first", "second"):
        replaced.replace(Child, "own", value)
        replaced.replace(Child, "shared", value)
    assert (Child.own, Child.shared, Base.shared) == ("second", "second", "of base")
    replaced.restore()
    assert dict(vars(Child)) == before
    assert Child.shared == "of base"
    replaced.restore()
    assert dict(vars(Child)) == before
