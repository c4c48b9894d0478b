"""The multimodal log-bilinear language model (Kiros, Salakhutdinov and Zemel 2014), in NumPy.

It predicts the next word from the words before it and from the image. With R the embeddings of the
words, x the image and C(i) a matrix for each place of the context,

    image    h = max(0, x J + j)
    context  p = sum_i R[word i] C(i) + h M                a prediction of the next word's embedding
    additive            scores = p R' + b                                           (section 3.2)
    multiplicative      scores = ((p Wp) * (h Wh)) Wr + b, and R = (Wp Wr)'         (section 3.3)

The softmax of the scores is the next word's distribution. In the multiplicative model the image
changes how words combine, through a tensor of rank "factors".

Texts are arrays of words' numbers. The number 0 begins and ends a caption, and fills the context
before its first word.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = dict[str, Array]

EPOCHS = 12  # at most
PATIENCE = 2  # epochs without a better perplexity, then training ends
BEAM = 3  # captions that the search keeps
LONGEST = 18  # words of a caption
STOP = 0


class Diverged(Exception):
    """The loss is no number, or far above the loss of a model that knows nothing."""


class Text:
    """Every word of some captions, with the words before it and its image.

    words: (n,); contexts: (n, context), the nearest word last; captions: (m, 2), where each begins
    and ends in words; images: (m,), the image that it describes.
    """

    def __init__(self, captions: list[list[str]], vocabulary: list[str], context: int) -> None:
        number = {word: i for i, word in enumerate(vocabulary)}
        words, contexts, ends, images = [], [], [0], []
        for image, wordings in enumerate(captions):
            for wording in wordings:
                # Words that training never saw cannot be predicted, and are left out.
                text = [number[w] for w in wording.split() if w in number] + [STOP]
                padded = [STOP] * context + text
                words += text
                contexts += [padded[i : i + context] for i in range(len(text))]
                ends.append(len(words))
                images.append(image)
        self.words, self.contexts = np.array(words), np.array(contexts)
        self.captions = np.stack([ends[:-1], ends[1:]], axis=1)
        self.images = np.array(images)


class LogBilinear:
    """The model of one set of hyperparameters; its weights are drawn from `rng`, then trained."""

    def __init__(
        self, parameters: dict[str, Any], words: int, pixels: int, rng: np.random.Generator
    ) -> None:
        context, k, h = (
            int(parameters[name]) for name in ("context", "embedding_size", "hidden_size")
        )
        self.parameters, self.context = parameters, context
        self.multiplicative = parameters["model"] == "multiplicative"

        def drawn(rows: int, columns: int, scale: float = 1.0) -> Array:
            return rng.normal(0, scale / np.sqrt(rows), (rows, columns)).astype(np.float32)

        self.weights: Weights = {
            "C": drawn(context * k, k),
            "J": drawn(pixels, h),
            "j": np.zeros(h, dtype=np.float32),
            "M": drawn(h, k),
            "b": np.zeros(words, dtype=np.float32),
        }
        if self.multiplicative:
            f = int(parameters["factors"])
            self.weights |= {"Wp": drawn(k, f), "Wh": drawn(h, f), "Wr": drawn(f, words)}
        else:
            self.weights["R"] = drawn(k, words).T.copy()
        word, context_decay = parameters["word_decay"], parameters["context_decay"]
        self.decay = {
            name: 0.0 if name in "jb" else context_decay if name in "CJM" else word
            for name in self.weights
        }

    def embeddings(self) -> Array:
        """R: (words, embedding_size)."""
        w = self.weights
        return (w["Wp"] @ w["Wr"]).T if self.multiplicative else w["R"]

    def hidden(self, images: Array) -> Array:
        """The hidden layer of images (n, pixels): (n, hidden_size)."""
        return np.maximum(images @ self.weights["J"] + self.weights["j"], 0)

    def scores(self, contexts: Array, h: Array, which: Array) -> tuple[Array, dict[str, Array]]:
        """Scores of the next words, (n, words), and what their gradient needs.

        contexts: (n, context); h: (m, hidden_size), the images' hidden layers; which: (n,) rows of h.
        """
        w, r = self.weights, self.embeddings()
        before = r[contexts].reshape(len(contexts), -1)
        p = before @ w["C"] + (h @ w["M"])[which]
        kept = {"r": r, "before": before, "p": p}
        if not self.multiplicative:
            return p @ r.T + w["b"], kept
        kept |= {"by_words": p @ w["Wp"], "by_image": (h @ w["Wh"])[which]}
        return (kept["by_words"] * kept["by_image"]) @ w["Wr"] + w["b"], kept

    def log_p(self, contexts: Array, h: Array, which: Array) -> Array:
        """Log probabilities of the next words, (n, words); arguments as of `scores`."""
        scores, _ = self.scores(contexts, h, which)
        return log_softmax(scores)

    def gradient(
        self, text: Text, chosen: Array, images: Array, rng: np.random.Generator
    ) -> tuple[float, Weights]:
        """Mean loss (nats per word) of the chosen captions, and its gradient, with dropout of
        hidden units."""
        spans = text.captions[chosen]
        at = np.concatenate([np.arange(*span) for span in spans])
        lengths = spans[:, 1] - spans[:, 0]
        first = (
            np.cumsum(lengths) - lengths
        )  # row at which each caption begins; all its words have one image
        which = np.repeat(np.arange(len(chosen)), lengths)
        x = images[text.images[chosen]]
        h = self.hidden(x)
        keep = np.float32(1 - self.parameters["dropout"])
        mask = (rng.random(h.shape, dtype=np.float32) < keep) / keep
        contexts, words = text.contexts[at], text.words[at]
        scores, kept = self.scores(contexts, h * mask, which)
        log_p = log_softmax(scores)
        loss = -float(log_p[np.arange(len(at)), words].mean())
        delta = np.exp(log_p)
        delta[np.arange(len(at)), words] -= 1
        delta /= len(at)

        w, slopes = self.weights, {"b": delta.sum(axis=0)}
        if self.multiplicative:
            slopes["Wr"] = (kept["by_words"] * kept["by_image"]).T @ delta
            by_factor = delta @ w["Wr"].T
            by_words = by_factor * kept["by_image"]
            by_image = np.add.reduceat(by_factor * kept["by_words"], first)
            slopes["Wp"] = kept["p"].T @ by_words
            slopes["Wh"] = (h * mask).T @ by_image
            by_p, by_h = by_words @ w["Wp"].T, by_image @ w["Wh"].T
        else:
            by_p, by_h = delta @ kept["r"], np.zeros((), dtype=np.float32)
        of_caption = np.add.reduceat(by_p, first)
        slopes["C"] = kept["before"].T @ by_p
        slopes["M"] = (h * mask).T @ of_caption
        by_h = (by_h + of_caption @ w["M"].T) * mask * (h > 0)
        slopes["J"], slopes["j"] = x.T @ by_h, by_h.sum(axis=0)

        by_before = (by_p @ w["C"].T).reshape(contexts.size, -1)
        one_hot = np.eye(len(w["b"]), dtype=np.float32)[contexts.ravel()]
        by_r = one_hot.T @ by_before
        if self.multiplicative:
            slopes["Wp"] += by_r.T @ w["Wr"].T
            slopes["Wr"] += w["Wp"].T @ by_r.T
        else:
            slopes["R"] = by_r + delta.T @ kept["p"]
        return loss, {name: g + self.decay[name] * w[name] for name, g in slopes.items()}

    def perplexity(self, text: Text, images: Array) -> float:
        """The same for all words of a text, in one pass."""
        lengths = text.captions[:, 1] - text.captions[:, 0]
        log_p = self.log_p(text.contexts, self.hidden(images), np.repeat(text.images, lengths))
        return float(np.exp(-log_p[np.arange(len(text.words)), text.words].mean()))

    def train(
        self,
        text: Text,
        images: Array,
        judge: tuple[Text, Array],
        rng: np.random.Generator,
        after: Callable[[int, float], None] = lambda epoch, perplexity: None,
    ) -> list[float]:
        """Stochastic gradient descent with momentum; keeps the weights of the best epoch.

        after: is called after each epoch, with its number, from 1 on, and the perplexity of `judge`.
        Returns the perplexity of `judge` after each epoch. Raises Diverged.
        """
        rate, momentum = self.parameters["learning_rate"], self.parameters["momentum"]
        batches = max(1, len(text.captions) // int(self.parameters["batch_size"]))
        velocity = {name: np.zeros_like(w) for name, w in self.weights.items()}
        perplexities: list[float] = []
        best = self.weights
        for _ in range(EPOCHS):
            for chosen in np.array_split(rng.permutation(len(text.captions)), batches):
                loss, slopes = self.gradient(text, chosen, images, rng)
                # A loss of ten times that of a model that knows nothing never recovers. In this
                # form the test is also true for NaN.
                if not loss < 10 * np.log(len(self.weights["b"])):
                    raise Diverged(f"training diverged: a loss of {loss:.3g} nats a word")
                for name, w in self.weights.items():
                    velocity[name] *= momentum
                    velocity[name] -= rate * slopes[name]
                    w += velocity[name]
            perplexities.append(self.perplexity(*judge))
            if not np.isfinite(perplexities[-1]):
                raise Diverged(f"training diverged: a perplexity of {perplexities[-1]}")
            after(len(perplexities), perplexities[-1])
            if perplexities[-1] == min(perplexities):
                best = {name: w.copy() for name, w in self.weights.items()}
            elif len(perplexities) - np.argmin(perplexities) > PATIENCE:
                break
        self.weights = best
        return perplexities


def log_softmax(scores: Array) -> Array:
    """Logarithms of the softmax of each row of scores: (n, words)."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def beam_search(models: list[LogBilinear], images: Array) -> Iterator[list[int]]:
    """A caption for each of images: (n, pixels), as its words' numbers.

    The models' log probabilities are averaged: several of them are an ensemble. For each image the
    BEAM likeliest beginnings are followed. The caption with the best mean log probability per word
    wins, since a sum would favour short captions.
    """
    n, longest = len(images), max(model.context for model in models)
    hidden = [model.hidden(images) for model in models]
    which = np.repeat(np.arange(n), BEAM)
    texts = np.full((n, BEAM, longest), STOP)
    # All beams begin in the same way, so only the first one counts.
    totals = np.where(np.arange(BEAM) == 0, 0.0, -np.inf) * np.ones((n, 1))
    ended, lengths = np.zeros((n, BEAM), dtype=bool), np.zeros((n, BEAM))
    for _ in range(LONGEST):
        flat = texts.reshape(n * BEAM, -1)
        log_p = np.mean(
            [m.log_p(flat[:, -m.context :], h, which) for m, h in zip(models, hidden, strict=True)],
            axis=0,
        ).reshape(n, BEAM, -1)
        # Captions that have ended go on with stops, at no cost.
        log_p[ended] = np.where(np.arange(log_p.shape[2]) == STOP, 0.0, -np.inf)
        candidates = (totals[:, :, None] + log_p).reshape(n, -1)
        best = np.argsort(-candidates, axis=1, kind="stable")[:, :BEAM]
        beam, word = np.divmod(best, log_p.shape[2])
        totals = np.take_along_axis(candidates, best, axis=1)
        texts = np.concatenate(
            [np.take_along_axis(texts, beam[:, :, None], axis=1), word[:, :, None]], axis=2
        )
        lengths = np.take_along_axis(lengths + ~ended, beam, axis=1)
        ended = np.take_along_axis(ended, beam, axis=1) | (word == STOP)
        if ended.all():
            break
    winners = np.argmax(totals / lengths, axis=1)
    for text in texts[np.arange(n), winners, longest:]:
        yield [int(word) for word in text if word != STOP]
