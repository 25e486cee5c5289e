"""Strategies for what an item may hold."""

from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
floats = st.just(0.0) | st.just(-0.0) | st.floats(1e-130, 9.5e125) | st.floats(-9.5e125, -1e-130)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | floats
    | texts
    | st.binary(max_size=8)
)
sets = st.frozensets(texts, min_size=1)
values = st.recursive(
    scalars | sets,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
items = st.dictionaries(names, values, max_size=3)
