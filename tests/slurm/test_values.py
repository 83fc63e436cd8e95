"""Values of Slurm's options."""

import pytest

from kubectl_sky.slurm import values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", "1h30m"),
        ("30:00", "30m"),
        ("0:30", "30s"),
        ("12:00:00", "12h"),
        ("1-12", "1d12h"),
        ("1-0:30", "1d30m"),
        ("2-01:02:03", "2d1h2m3s"),
        ("72:00:00", "3d"),
    ],
)
def test_time_in_each_form_is_a_duration(text: str, expected: str) -> None:
    seconds = values.seconds(text)
    assert seconds
    assert values.duration(seconds) == expected


@pytest.mark.parametrize("text", ["0", "00:00:00", "UNLIMITED", "infinite"])
def test_time_without_limit_is_none(text: str) -> None:
    assert values.seconds(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("64G", 64), ("64gb", 64), ("2048", 2), ("500M", "500Mi"), ("1T", 1024), ("1.5G", "1536Mi")],
)
def test_memory_in_each_unit_is_gibibytes_or_text(text: str, expected: int | str) -> None:
    assert values.memory(values.mebibytes(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-10", "1-10"),
        ("0-15%4", "0-15%4"),
        ("1,3,5", "1,3,5"),
        ("0-20:5", "0,5,10,15,20"),
        ("[1-3]", "1-3"),
        ("0-4:2,9%1", "0,2,4,9%1"),
    ],
)
def test_array_in_each_form_is_numbers(text: str, expected: str) -> None:
    assert values.numbers(text) == expected


@pytest.mark.parametrize("text", ["0-9999999:2", "0-99999:2,0-99999:2,0-9:5"])
def test_array_with_too_many_numbers_in_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than 100,000 numbers"):
        values.numbers(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", ("", 4)), ("a100:2", ("a100", 2)), ("v100", ("v100", 1)), ("2(S:0-1)", ("", 2))],
)
def test_gpus_have_type_and_number(text: str, expected: tuple[str, int]) -> None:
    gpus = values.gpus(text)
    assert gpus
    assert (gpus.type, gpus.number) == expected


def test_names_with_ranges_are_listed() -> None:
    assert values.names("n[08-10],m[1,3]x,k") == ["n08", "n09", "n10", "m1x", "m3x", "k"]


@pytest.mark.parametrize("text", ["n[0-10000]", "n[0-5000,0-5000]", "n[0-5000],m[0-5000]"])
def test_list_with_too_many_names_in_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than 10,000 names"):
        values.names(text)


def test_list_with_a_long_name_is_not_expanded() -> None:
    name = "n" * 1000
    assert values.names(f"{name}[0-9999]") == [f"{name}[0-9999]"]
