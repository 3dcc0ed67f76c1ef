import pytest

from coterie.data.tables.names import conversion, name_and_unit
from coterie.data.tables.texts import loose, number_of, same


@pytest.mark.parametrize(
    ("name", "there", "here", "value", "expected"),
    [
        ("glucose", "mmol/l", "mg/dl", 5.5, 99.088),
        ("Cholesterol", "mg/dl", "mmol/l", 193.35, 5.0),
        ("creatinine", "µmol/l", "mg/dl", 88.42, 1.0),
        ("temperature", "F", "°C", 98.6, 37.0),
        ("temp", "C", "F", 37.0, 98.6),
        ("weight", "lbs", "kg", 100, 45.359237),
        ("height", "in", "cm", 70, 177.8),
        ("weight", "kg", "KG", 70, 70),
    ],
)
def test_known_conversions(name, there, here, value, expected):
    assert conversion(name, there, here)(value) == pytest.approx(expected)


def test_amounts_go_by_substance():
    assert conversion("sodium", "mmol/l", "mg/dl") is None
    assert conversion("weight", "kg", "cm") is None


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("weight (kg)", ("weight", "kg")),
        ("Weight [LBS]", ("Weight", "lb")),
        ("weight_kg", ("weight", "kg")),
        ("creatinine (µmol/L)", ("creatinine", "umol/l")),
        ("temp (F)", ("temp", "°F")),
        ("pain (left)", ("pain (left)", "")),
        ("kg", ("kg", "")),
        ("age", ("age", "")),
    ],
)
def test_units_in_headers(header, found):
    assert name_and_unit(header) == found


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("1.5", "", 1.5), ("1,5", ",", 1.5), ("1,5", "", None), ("1,234.5", "", 1234.5),
        ("1.234,5", ",", 1234.5), ("1 234", "", 1234.0), ("1'234'567", "", 1234567.0), ("-3e2", "", -300.0),
        (".5", "", 0.5), ("1e999", "", None), ("0x10", "", None), ("nan", "", None), ("inf", "", None),
        ("1_000", "", None), ("9" * 5000, "", None), (2.5, ",", 2.5),
    ],
)  # fmt: skip
def test_numbers_as_written(text, decimal, value):
    assert number_of(text, decimal) == value


def test_names_and_values_that_are_the_same():
    assert loose(" Größe_des  Patienten ") == loose("GRÖSSE des patienten") == "grosse des patienten"
    assert same("1.0") == same(" 1 ") == same(1.0) == "1"
    assert same("YES ") == "yes"
