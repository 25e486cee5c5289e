"""Ranges of sort keys in DynamoDB's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables import Key, Range, Scalar, SchemaError
from keytables.checks import key_check
from keytables.dynamodb.ranges import EVERYTHING, KeyRange, key_range

check = key_check(Key("place"), 1024)

texts = st.text(st.characters(codec="utf-8"), max_size=2)
bounds = st.one_of(st.none(), texts)
ranges = st.builds(
    lambda low, high, low_open, high_open: Range(
        **{"gt" if low_open else "ge": low, "lt" if high_open else "le": high}
    ),
    bounds,
    bounds,
    st.booleans(),
    st.booleans(),
)


def asked(found: KeyRange, place: str) -> bool:
    """Whether DynamoDB finds a key by that comparison."""
    key, values = place.encode(), [str(value).encode() for value in found.values]
    match found.text:
        case "":
            return True
        case "{0} > :a":
            return key > values[0]
        case "{0} >= :a":
            return key >= values[0]
        case "{0} < :a":
            return key < values[0]
        case "{0} <= :a":
            return key <= values[0]
        case "{0} BETWEEN :a AND :b":
            assert values[0] <= values[1], "DynamoDB refuses it"
            return values[0] <= key <= values[1]
    raise AssertionError(found.text)


@given(ranges, st.text(st.characters(codec="utf-8"), min_size=1, max_size=3))
def test_a_key_is_found_if_it_is_in_the_range(sort: Range, place: str) -> None:
    key = place.encode()
    expected = (
        (sort.gt is None or key > str(sort.gt).encode())
        and (sort.ge is None or key >= str(sort.ge).encode())
        and (sort.lt is None or key < str(sort.lt).encode())
        and (sort.le is None or key <= str(sort.le).encode())
    )
    found = key_range(sort, check)
    if found is None:
        assert not expected
    else:
        assert "" not in found.values, "DynamoDB takes no empty key"
        assert (asked(found, place) and place not in found.without) is expected


def test_a_prefix_is_a_comparison_of_its_own() -> None:
    assert key_range(Range(prefix="a"), check) == KeyRange("begins_with({0}, :a)", ("a",))
    assert key_range(Range(prefix=""), check) == EVERYTHING


def test_a_range_of_one_key_is_between_it_and_itself() -> None:
    found = key_range(Range(ge="a", le="a"), check)
    assert found == KeyRange("{0} BETWEEN :a AND :b", ("a", "a"))


@pytest.mark.parametrize("bound", [1, b"", b"a", True, "x" * 1025])
def test_a_bound_of_the_wrong_kind_is_refused(bound: Scalar) -> None:
    with pytest.raises(SchemaError):
        key_range(Range(ge=bound), check)
