"""What torch (eager) says for the pipelines of `pipelines.py`, in an interpreter of its own: `PYTHON torch_side.py`.

Reads pickles of (name of a pipeline, arrays) from its input and answers each with the seconds of the call and what it
gave. torch runs with one thread, as eqsat does.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any


def image(batch: Any, mean: Any, deviation: Any) -> Any:
    torch: Any = import_module("torch")
    middle = batch[:, 16:-16, 16:-16, :].flip(2)
    normal = (middle.to(torch.float32) / 255 - mean) / deviation
    return torch.nn.functional.pad(normal.permute(0, 3, 1, 2), (4, 4, 4, 4)).contiguous()


def audio(signal: Any, window: Any) -> Any:
    flat = signal[:, 1:] - 0.97 * signal[:, :-1]
    frames = flat.unfold(1, 400, 160)
    return (frames - frames.mean(-1, keepdim=True)) * window


def tokens(ids: Any, lengths: Any) -> Any:
    torch: Any = import_module("torch")
    columns = torch.arange(512)
    real = columns < lengths[:, None]
    clean = torch.where(real, ids, 0)
    causal = columns[:, None] >= columns
    mask = torch.where(real[:, None, :] & causal, 0.0, -1e9)
    positions = torch.where(real, torch.cumsum(real, 1) - 1, 0)
    labels = torch.where(columns + 1 < lengths[:, None], torch.nn.functional.pad(ids[:, 1:], (0, 1)), -100)
    return clean, mask, positions, labels


PIPELINES: dict[str, Callable[..., Any]] = {"image": image, "audio": audio, "tokens": tokens}


def main() -> None:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what a package prints is no answer
    pickle.dump(str(torch.__version__), answers)
    answers.flush()
    while True:
        try:
            name, arrays = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        start = time.perf_counter()
        made = PIPELINES[name](*(torch.from_numpy(a) for a in arrays))
        seconds = time.perf_counter() - start
        parts = [x.numpy() for x in (made if name == "tokens" else [made])]
        pickle.dump((seconds, parts), answers)
        answers.flush()


if __name__ == "__main__":
    main()
