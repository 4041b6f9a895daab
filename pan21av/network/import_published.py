"""The authors' published weights (pickles of NumPy arrays) into our format.

The pickles are read by a restricted unpickler that admits NumPy arrays and plain containers
only: nothing in them can run.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..config import ModelConfig
from ..data.tokeniser import PUBLISHED
from ..data.vocabulary import FIRST, Vocabulary
from ..errors import InputError
from ..vote import check_odd
from .checkpoint import member_files, save_ensemble, stack_members

_ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.numeric", "_frombuffer"),
    ("collections", "OrderedDict"),
    ("_codecs", "encode"),  # how protocol 2 writes bytes
}
MAX_BYTES = 1 << 30


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is neither an array nor a container")
        return super().find_class(module, name)


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in one weights file; ValueError if it is anything else."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} is larger than any published weights file")
    try:
        content = _Unpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise ValueError(f"{path} is not a weights file of the published program: {error}") from None
    if not isinstance(content, dict) or not {"hyper_parameters", "theta", "theta_E"} <= set(content):
        raise ValueError(f"{path} does not hold hyper_parameters, theta and theta_E")
    return content


def _vocabulary(hyper: dict[str, Any]) -> Vocabulary:
    def listed(ids: dict[str, int]) -> tuple[str, ...]:
        ordered = sorted(ids, key=lambda entry: ids[entry])
        if [ids[entry] for entry in ordered] != list(range(len(ordered))):
            raise ValueError("its vocabulary does not number the entries 0, 1, 2, ...")
        return tuple(ordered[FIRST:])

    return Vocabulary(listed(hyper["V_w"]), listed(hyper["V_c"]), lowercase=False)


def _lstm(theta: dict[str, Any], name: str) -> dict[str, Tensor]:
    """Per-gate matrices of both directions -> our (inputs, 2, 4, H) and so on."""

    def gates(letter: str) -> Tensor:
        both = [
            torch.stack([_tensor(theta[f"lstm_{name}_{way}"][f"{letter}_{gate}"]) for gate in "ifoc"], 1)
            for way in ("forward", "backward")
        ]
        return torch.stack(both)  # (2, inputs, 4, H)

    attention = theta[f"att_{name}"]
    return {
        "input": gates("W").transpose(0, 1),
        "recurrent": gates("U"),
        "bias": gates("b")[:, 0],
        "att_matrix": _tensor(attention["W"]),
        "att_bias": _tensor(attention["b"]).flatten(),
        "att_vector": _tensor(attention["v"]).flatten(),
    }


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32))


def read_member(path: Path) -> tuple[ModelConfig, Vocabulary, dict[str, Tensor]]:
    """One published weights file -> dimensions, vocabulary and the state of one member."""
    content = read_pickle(path)
    hyper, theta, embeddings = content["hyper_parameters"], content["theta"], content["theta_E"]
    try:
        config = ModelConfig(
            char_dim=hyper["D_c"],
            char_width=hyper["w"],
            char_filters=hyper["D_r"],
            chars_per_token=hyper["T_c"],
            word_dim=hyper["D_w"],
            window_hidden=hyper["D_s"],
            document_hidden=hyper["D_d"],
            window_tokens=hyper["T_w"],
            window_hop=hyper["hop_length"],
            max_windows=hyper["T_s"],
            encoder_dim=hyper["D_lev"],
            bfs_dim=hyper["D_plda"],
            variant="published",
        )
        vocabulary = _vocabulary(hyper)
        zero = torch.zeros(1, config.word_dim)
        state = {
            "encoder.words": torch.cat([zero, _tensor(embeddings["E_w_1"]), _tensor(embeddings["E_w_2"])]),
            "encoder.chars": torch.cat([torch.zeros(1, config.char_dim), _tensor(embeddings["E_c_1"])]),
            "encoder.cnn": _tensor(theta["cnn"]["W"]),
            "encoder.cnn_bias": _tensor(theta["cnn"]["b"]).flatten(),
            **{f"encoder.window.{k}": v for k, v in _lstm(theta, "ws").items()},
            **{f"encoder.document.{k}": v for k, v in _lstm(theta, "sd").items()},
            "metric.weight": _tensor(theta["metric"]["W"]),
            "metric.bias": _tensor(theta["metric"]["b"]).flatten(),
            "dml.log_gamma": _tensor(theta["loss_dml"]["alpha"]).log().reshape(()),
            "dml.log_alpha": _tensor(theta["loss_dml"]["beta"]).log().reshape(()),
            "bfs.projection.weight": _tensor(theta["bfs_1"]["W"]),
            "bfs.projection.bias": _tensor(theta["bfs_1"]["b"]).flatten(),
            "bfs.between": _tensor(theta["bfs_2"]["B"]),
            "bfs.within": _tensor(theta["bfs_2"]["W"]),
            "bfs.mean": _tensor(theta["bfs_2"]["mu"]).flatten(),
            **{
                f"{ours}.{kind}": _tensor(theta[group][f"{letter}{n}"]).reshape(shape)
                for group, layers in (
                    ("ual", ("ual.hidden", "ual.logits")),
                    ("o2d2", tuple(f"o2d2.layers.{i}" for i in range(3))),
                )
                for n, ours in enumerate(layers, 1)
                for kind, letter, shape in (
                    ("weight", "W", np.shape(theta[group][f"W{n}"])),
                    ("bias", "b", (-1,)),
                )
            },
        }
        # Building the network checks every shape.
        stack_members(config, vocabulary, [state])
    except KeyError as error:
        raise ValueError(f"{path} lacks {error}, which the published program writes") from None
    except (TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} does not fit the published layout: {error}") from None
    return config, vocabulary, {name: tensor.contiguous() for name, tensor in state.items()}


def import_published(weights: list[Path], output: Path) -> None:
    """Published weights files, one per member, into an ensemble folder."""
    try:
        check_odd(len(weights))
        loaded = [read_member(path) for path in weights]
        config, vocabulary, _ = loaded[0]
        for path, (other, words, _) in zip(weights, loaded, strict=True):
            if other != config or words != vocabulary:
                raise ValueError(f"{path} has other dimensions or another vocabulary than {weights[0]}")
    except ValueError as error:
        raise InputError(str(error)) from None
    save_ensemble(
        output,
        config=config,
        tokeniser=PUBLISHED,
        vocabulary=vocabulary,
        members=[member_files(state, ("o2d2.",), half=False) for _, _, state in loaded],
        info={"training": {"imported": [path.name for path in weights]}},
    )
