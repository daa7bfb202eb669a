"""What the benchmark of pictures prints."""

from benchmarks.pictures import print_means


def test_a_mean_has_no_number_that_only_some_pictures_have(capsys):
    rows = [
        {"kind": "grey", "level": 25, "picture": "a", "best": 30.0, "error of the estimate": -0.25},
        {"kind": "grey", "level": 25, "picture": "b", "best": 31.0},
    ]
    print_means(rows)
    mean, errors = capsys.readouterr().out.splitlines()
    assert mean == "grey 25 mean of 2 best 30.50"
    assert errors.strip() == "1 of them with an estimate, wrong by -0.25 to -0.25 dB"
