"""Tune a multimodal log-bilinear language model that describes small scenes in words.

The eleven hyperparameters and their ranges come from Snoek et al. 2015 (section 4.2 and table 6).
Here a small scene of two digits (scenes.py) replaces a photograph of COCO. The model (model.py)
comes from Kiros et al. 2014. It learns from 800 scenes and is judged on 200 others, which have
other handwriting.

Parameters, a JSON object on standard input:
    model            "additive", or "multiplicative": how the image changes the words
    context          number of words from which the next one is predicted
    learning_rate    step size of the gradient descent
    momentum         its momentum
    batch_size       captions in one step
    hidden_size      hidden units for the image
    embedding_size   length of a word's embedding
    dropout          share of the hidden units left out of a step
    word_decay       decay of the words' embeddings
    context_decay    decay of the weights of context and image
    factors          rank of the weight tensor; only of the multiplicative model

Outcome, a JSON object as the last line of standard output:
    objective        BLEU-4 of a beam search against five captions a scene, in percent; higher is better
    metadata         perplexity, epochs, CPU seconds, and the first three captions

After each epoch a line {"step": 3, "objective": -12.5}, minus the perplexity, goes to the file in
the environment variable DNGO_PROGRESS: `early_stopping: true` in a configuration stops evaluations
that are worse than the others.

If training diverges, or takes more CPU seconds than the limit below, the program says so and exits
with status 1. The limit is CPU time, so that a busy machine matters little. Initial weights, the
order of the captions and dropout come from the environment variable DNGO_SEED. With the word "test"
as its argument, the program is judged on the test scenes, for the end of a study.
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
    """The words of the captions. Number 0 is no word; it begins and ends each caption."""
    words = {w for wordings in scenes.captions for caption in wordings for w in caption.split()}
    return ["", *sorted(words)]


def report(epoch: int, perplexity: float) -> None:
    """Report the progress of training, if anybody wants to know: a less perplexed model describes
    better.

    A search for captions after each epoch would take longer than the epoch. Rules of early stopping
    only compare evaluations at the same epoch. Any number that ranks them in the same way is
    enough.
    """
    if place := os.environ.get("DNGO_PROGRESS"):
        with open(place, "a") as stream:
            stream.write(json.dumps({"step": epoch, "objective": -perplexity}) + "\n")


def trained(
    parameters: dict[str, Any], scenes: dict[str, Scenes], seed: int
) -> tuple[LogBilinear, list[float]]:
    """The model of these parameters, and its perplexity after each epoch; raises Diverged."""
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
    # One list has the first reference of every scene, the next the second ones, and so on.
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
    # words report that training diverged
    np.seterr(over="ignore", invalid="ignore", divide="ignore")
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
