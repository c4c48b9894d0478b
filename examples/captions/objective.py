"""Tune a multimodal log-bilinear language model that describes small scenes in words.

The eleven hyperparameters are those of Snoek et al. 2015 (section 4.2 and table 6), with their ranges: a
small scene of two digits (scenes.py) stands for a photograph of COCO, and the model (model.py) is that of
Kiros et al. 2014. It learns from 800 scenes and is judged on 200 others, of other handwriting.

Parameters, a JSON object on standard input:
    model            "additive", or "multiplicative": how the image acts on the words
    context          number of words that the next one is predicted from
    learning_rate    step size of the gradient descent
    momentum         its momentum
    batch_size       captions in one step
    hidden_size      units that stand for the image, and join it to the words
    embedding_size   numbers that stand for a word
    dropout          share of the hidden units left out of a step
    word_decay       decay of the words' embeddings
    context_decay    decay of the weights of context and image
    factors          rank of the weight tensor; only of the multiplicative model

Outcome, a JSON object as the last line of standard output:
    objective        BLEU-4 of a beam search against five captions a scene, in percent; higher is better
    metadata         perplexity, epochs, CPU seconds, and the first three captions

After each epoch a line {"step": 3, "objective": -12.5}, minus the perplexity, is appended to the file that
the environment variable DNGO_PROGRESS names: `early_stopping: true` in a configuration stops what is worse
than the others.

Where training diverges, or takes more CPU seconds than the limit below, the program says so and exits with
status 1. It is CPU time, not wall time, so that neighbours on a busy machine matter little. Initial
weights, the order of the captions and dropout come from the environment variable DNGO_SEED. With the
word "test" as its argument, the program is judged on the test scenes, for the end of a study.
"""

import json
import os
import resource
import signal
import sys
import time
from typing import Any

# One thread: evaluations run side by side. NumPy's linear algebra reads these variables when it is
# imported, hence before the import.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
from model import Diverged, LogBilinear, Text, beam_search  # noqa: E402
from scenes import Scenes, load_scenes  # noqa: E402

try:
    from sacrebleu.metrics import BLEU
except ImportError:
    sys.exit("the captions example needs sacrebleu for its score: pip install sacrebleu")

CPU_SECONDS = 6


def vocabulary(scenes: Scenes) -> list[str]:
    """The words of the captions; number 0, which is no word, begins and ends each."""
    words = {w for wordings in scenes.captions for caption in wordings for w in caption.split()}
    return ["", *sorted(words)]


def report(epoch: int, perplexity: float) -> None:
    """Say how far training has come, if anybody wants to know: what is less perplexed describes better.

    A search for captions after each epoch would take longer than the epoch. Rules of early stopping compare
    evaluations with each other at the same epoch, for which another number of the same order will do.
    """
    if place := os.environ.get("DNGO_PROGRESS"):
        with open(place, "a") as stream:
            stream.write(json.dumps({"step": epoch, "objective": -perplexity}) + "\n")


def trained(
    parameters: dict[str, Any], scenes: dict[str, Scenes], seed: int
) -> tuple[LogBilinear, list[float]]:
    """The model of these parameters, and its perplexity after each epoch; Diverged if it did."""
    rng = np.random.default_rng(seed)
    words = vocabulary(scenes["train"])
    train, judge = (
        Text(scenes[part].captions, words, int(parameters["context"]))
        for part in ("train", "validation")
    )
    images = scenes["train"].images
    model = LogBilinear(parameters, len(words), images.shape[1], rng)
    return model, model.train(train, images, (judge, scenes["validation"].images), rng, report)


def score(models: list[LogBilinear], scenes: Scenes, words: list[str]) -> tuple[float, list[str]]:
    """BLEU-4 (Papineni et al. 2002), in percent, of the models' captions, and the captions."""
    found = [" ".join(words[i] for i in text) for text in beam_search(models, scenes.images)]
    # One list for the first reference of every scene, one for the second, and so on.
    references = [list(column) for column in zip(*scenes.captions, strict=True)]
    bleu = BLEU(tokenize="none", smooth_method="none")
    return bleu.corpus_score(found, references).score, found


def stop(*_: Any) -> None:
    """What happens at the limit of CPU time."""
    sys.exit(f"training took more than {CPU_SECONDS} CPU seconds")


def main() -> None:
    parameters = json.load(sys.stdin)
    part = "test" if sys.argv[1:] == ["test"] else "validation"
    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    np.seterr(over="ignore", invalid="ignore", divide="ignore")  # divergence is reported in words
    scenes = load_scenes()
    try:
        model, perplexities = trained(parameters, scenes, int(os.environ.get("DNGO_SEED", "0")))
    except Diverged as error:
        sys.exit(str(error))
    bleu, captions = score([model], scenes[part], vocabulary(scenes["train"]))
    metadata = {
        "perplexity": min(perplexities),
        "epochs": len(perplexities),
        "cpu_seconds": time.process_time(),
        "captions": captions[:3],
    }
    print(json.dumps({"objective": bleu, "metadata": metadata}))


if __name__ == "__main__":
    main()
