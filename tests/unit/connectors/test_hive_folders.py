"""Folders named by columns, as Spark names them."""

from __future__ import annotations

import pytest

from rekindle.connectors.hive_folders import NULL_FOLDER, folders_of, key_of

NAMES = {
    "plain": ("day", "2013-01-31", "day=2013-01-31"),
    "null": ("day", None, f"day={NULL_FOLDER}"),
    "empty": ("day", "", f"day={NULL_FOLDER}"),
    "a time": ("at", "2013-01-31 05:00:00", "at=2013-01-31 05%3A00%3A00"),
    "signs": ("w", "a/b=c%d\\e", "w=a%2Fb%3Dc%25d%5Ce"),
    "all that Spark escapes": ("w", "\"#%'*/:=?\\{[]^", "w=%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E"),
    "what Spark leaves": ("w", "} <>|~!é", "w=} <>|~!é"),
    "control characters": ("w", "\x00\x01\n\x1f\x7f", "w=%00%01%0A%1F%7F"),
    "a column's name": ("a:b", "1", "a%3Ab=1"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_folder_says_the_column_and_its_value_and_is_read_back(case):
    column, value, folder = NAMES[case]
    assert folders_of([column], [value]) == folder
    assert key_of(folder) == (column, value or None)


def test_folders_lie_in_each_other_in_the_order_of_the_columns():
    assert folders_of(["year", "carrier"], ["2013", None]) == f"year=2013/carrier={NULL_FOLDER}"


def test_a_value_that_is_too_long_for_a_name_is_an_error_that_names_the_column():
    assert len(folders_of(["w"], ["x" * 253])) == 255
    with pytest.raises(ValueError, match=r"column 'w' has a value of 127 characters.*255 bytes.*hive_partitions"):
        folders_of(["w"], ["é" * 127])
