"""Numbers and dates in text."""

import numpy as np
import pytest

from bayesvm.data.cleaning_columns import Date, Number, as_text

pd = pytest.importorskip("pandas")


def read(texts):
    style = Number.of(texts, np.ones(len(texts)))
    return None if style is None else style.numbers(texts).tolist()


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["26,332.23", "1,000", "7.5", "-3"], [26332.23, 1000.0, 7.5, -3.0]),
        (["1.234,5", "12.000.000", "0,25"], [1234.5, 12e6, 0.25]),
        (["1 234,5", "7,25"], [1234.5, 7.25]),
        (["1'234.5", "8"], [1234.5, 8.0]),
        (["12 %", "7.5 %", "100%"], [12.0, 7.5, 100.0]),
        (["12 %", "0.5"], [0.12, 0.5]),
        (["$5", "$1,200.50", "-$3", "($4)"], [5.0, 1200.5, -3.0, -4.0]),
        (["€ 5", "7 EUR", "8 €"], [5.0, 7.0, 8.0]),
        (["70 kg", "81.5 kg"], [70.0, 81.5]),
        (["1e5", "2.5E-3", "−4"], [1e5, 2.5e-3, -4.0]),
        (["1.234", "2.5"], [1.234, 2.5]),  # a point is decimal unless that cannot be
        (["01234", "56789"], None),  # codes
        (["1st", "2nd"], None),
        (["10-19", "20-29"], None),
        (["1,23,4", "5"], None),
        (["a", "b"], None),
        (["1_000", "2"], None),
    ],
)
def test_numbers_in_text(texts, numbers):
    found = read(texts)
    assert found is None if numbers is None else found == pytest.approx(numbers)


def test_a_few_cells_that_are_no_numbers_are_missing():
    texts = [str(k) for k in range(40)]
    assert np.isnan(read([*texts, "n.a."])[-1])
    assert read([*texts, "a", "b", "c", "d"]) is None


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["2024-02-29", "2021-12-31"], ["2024-02-29", "2021-12-31"]),
        (
            ["2024-02-29T10:30:00Z", "2021-12-31 23:59:59"],
            ["2024-02-29T10:30", "2021-12-31T23:59:59"],
        ),
        (["13/01/2024", "02/03/2024"], ["2024-01-13", "2024-03-02"]),
        (["01/13/2024", "02/03/2024"], ["2024-01-13", "2024-02-03"]),
        (["31.12.2020", "1.2.2021"], ["2020-12-31", "2021-02-01"]),
        (["5 Mar 2020", "17 Dec 2021"], ["2020-03-05", "2021-12-17"]),
        (["March 5, 2020", "May 1, 2021"], ["2020-03-05", "2021-05-01"]),
        (["20200305", "20211231"], ["2020-03-05", "2021-12-31"]),
        (["01/13/2024 10:15", "02/03/2024 11:00"], ["2024-01-13T10:15", "2024-02-03T11:00"]),
        (["3-4", "5-6"], None),
        (["10 to 20", "20 to 30"], None),
        (["192.168.1.1", "10.0.0.1"], None),
    ],
)
def test_dates_in_text(texts, days):
    style = Date.of(texts, np.ones(len(texts)))
    if days is None:
        assert style is None
    else:
        assert style.read(texts).tolist() == np.array(days, "datetime64[us]").tolist()


def test_texts_of_cells():
    codes, texts = as_text(
        np.array(["a ", None, "?", 1.0, 1, np.nan, " a", "N/A", "1.0", "b  c"], object)
    )
    assert texts == ["a", "1", "b c"]
    assert as_text(pd.Series([[1, 2], {"k": 1}, [1, 2]]))[1] == ["[1, 2]", "{'k': 1}"]
    assert codes.tolist() == [0, -1, -1, 1, 1, -1, 0, -1, 1, 2]
