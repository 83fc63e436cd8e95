"""The steps in what programs print: the lines of usual trainers."""

from datetime import UTC, datetime

import pytest

from kubectl_sky.observe.steps import StepReader, Steps, read_counts

BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

PRINTED = {
    "a loop": ("step 12: loss 0.031", (12,)),
    "nanoGPT": ("iter 120: loss 2.31, time 120.10ms, mfu 20.11%", (120,)),
    "DDP tutorial": ("[GPU0] Epoch 3 | Batchsize: 32 | Steps: 64", (3, 64)),
    "ImageNet": ("Epoch: [2][ 10/5005]\tTime  0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)", (2, 10)),
    "MNIST": ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.29", (1, 640)),
    "transformers": ("{'loss': 2.3, 'learning_rate': 5e-05, 'epoch': 0.12}", (0.12,)),
    "tqdm": ("  1%|          | 10/1000 [00:10<17:20,  1.05s/it]", (10,)),
    "Lightning": ("Epoch 4:  10%|#         | 10/100 [00:01<00:09, 9.9it/s, v_num=0]", (4, 10)),
    "Megatron": (" iteration       10/     500 | consumed samples:   1280 | loss: 9.1", (10,)),
    "DeepSpeed": ("[2026-01-01 10:00:00,123] [INFO] [Rank 0] step=10, skipped=0", (10,)),
    "torchtitan": ("[titan] 2026-01-01 10:00:00 - root - INFO - step:  7  loss:  8.1", (7,)),
    "MaxText": ("completed step: 5, seconds: 1.2, TFLOP/s/device: 3.1, loss: 1.2", (5,)),
    "Flax": ("train epoch: 2, loss: 0.3, accuracy: 91.1", (2,)),
    "Ultralytics": ("      1/100      2.1G      1.21      3.33", (1,)),
    "accelerate": ("epoch 1: {'accuracy': 0.68, 'f1': 0.81}", (1,)),
    "a date before": ("01/29/2026 10:00:00 - INFO - epoch 1 step 20", (1, 20)),
    "no step": ("loaded 3 shards in 4.2 seconds", ()),
    "a path": ("saved to /data/run7/model.pt", ()),
}


@pytest.mark.parametrize(("line", "counts"), PRINTED.values(), ids=PRINTED)
def test_counts_are_found_in_the_lines_of_usual_trainers(
    line: str, counts: tuple[float, ...]
) -> None:
    assert read_counts(line) == counts


def read(*lines: tuple[float, str], pattern: str = "") -> Steps:
    """Read lines with their seconds since the beginning."""
    reader = StepReader(pattern)
    for seconds, text in lines:
        stamp = datetime.fromtimestamp(BEGIN + seconds, UTC).isoformat()
        reader.read(f"{stamp} {text}".encode())
    return reader.steps


def test_the_lines_that_last_longest_are_the_steps_not_the_most_frequent_ones() -> None:
    lines = [(float(step), f"step {step}: loss 1.0") for step in range(100)]
    download = [(number / 100, f"shard {number}/500") for number in range(500)]

    steps = read(*download, *lines)

    assert list(steps.positions) == list(range(100))


def test_lines_of_an_evaluation_are_no_steps_of_the_training() -> None:
    lines = []
    for epoch in range(3):
        lines += [(epoch * 100 + at, f"epoch {epoch} step {at}") for at in range(10)]
        lines += [(epoch * 100 + 10 + at, f"validation step {at}") for at in range(50)]

    assert len(read(*lines)) == 30


def test_a_progress_bar_that_is_one_line_tells_its_own_times() -> None:
    bar = "\r".join(f" {at}%|  | {at}/100 [00:{at:02}<01:00, 1.00it/s]" for at in range(60))

    steps = read((5, bar))

    assert steps.pauses == [1.0] * 59


def test_a_step_takes_its_part_of_the_time_between_two_lines() -> None:
    steps = read(*((at * 20.0, f"iter {at * 10}: loss 2") for at in range(5)))

    assert steps.step_seconds == [2.0] * 4


def test_a_pattern_says_what_counts() -> None:
    steps = read((0, "step 1 of setup"), (1, "b=7 ok"), (2, "b=8 ok"), pattern=r"b=(\d+) ok")

    assert list(steps.positions) == [7.0, 8.0]


def test_a_pattern_that_is_none_leaves_the_usual_lines() -> None:
    steps = read((0, "step 1"), (1, "step 2"), pattern="step (")

    assert list(steps.positions) == [1.0, 2.0]


def test_a_count_that_begins_again_has_unnamed_epochs() -> None:
    again = read(*((float(at), f"{at % 10}/10") for at in range(30)))
    resumed = read(*((float(at), f"{step}/90") for at, step in enumerate([1, 2, 3, 4, 3, 4, 5])))

    assert again.has_unnamed_epochs
    assert not resumed.has_unnamed_epochs
