"""Which kinds of text a member knows: where its sources lie, in the directions in which they differ most."""

from __future__ import annotations

import numpy as np
import torch

from ..network.ngram_part import NgramPart
from .discriminant import discriminants, group_means
from .fit_ngrams import blocks
from .prepared import TRAIN, Prepared
from .streams import Stream, numpy_stream

PER_KIND = 350  # documents, so that no source decides where the others lie
SHRINK = 0.3  # of the covariance inside sources towards its diagonal
RIDGE = 1e-3  # of the mean variance


@torch.no_grad()
def fit_kinds(part: NgramPart, prepared: Prepared, seed: int) -> None:
    """Fit one member's kinds to the training texts of its sources, as far as these have any."""
    assert part.kinds is not None
    documents, source = _sample(prepared, seed)
    kinds = len(np.unique(source))
    if kinds < 2:
        return  # one kind is no kind: everything stays at its centre
    device = part.index.device
    counted = ((frequencies.to(device), tokens.to(device)) for _, frequencies, tokens in blocks(prepared, documents))
    z = np.concatenate([part.z_scores(*each)[0].double().cpu().numpy() for each in counted])
    means, home = group_means(z, source)
    inside = z - means[home]
    noise = inside.T @ inside / len(z)
    noise = (1 - SHRINK) * noise + SHRINK * np.diag(noise.diagonal())
    noise[np.diag_indices(len(noise))] += RIDGE * noise.diagonal().mean() + 1e-9
    centred = means - means.mean(0)
    projection, _ = discriminants(noise, centred.T @ centred / len(centred), min(kinds - 1, z.shape[1]))
    weight = torch.as_tensor(projection, dtype=torch.float32).half().float()  # as it will be shipped
    part.kinds.weight[0, :, : weight.shape[1]] = weight
    # A source without training texts lies where another does.
    centres = torch.as_tensor(means, dtype=torch.float32) @ weight
    part.kinds.centres[0, :, : weight.shape[1]] = centres[torch.arange(part.kinds.centres.shape[1]) % kinds]


def _sample(prepared: Prepared, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some training documents of every source that the member knows, and their sources."""
    rng, source = numpy_stream(seed, Stream.KINDS), prepared.catalogue.source
    documents = rng.permutation(prepared.documents(TRAIN))
    chosen = [documents[source[documents] == number][:PER_KIND] for number in np.flatnonzero(prepared.known)]
    documents = np.sort(np.concatenate(chosen))
    return documents, source[documents]
