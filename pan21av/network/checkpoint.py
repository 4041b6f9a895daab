"""Ensembles on disk: ensemble.json, vocab.json and two safetensors files per member.

member-NN.stage1 holds what stage one trained, member-NN.stage2 what stage two fitted: O2D2 and, where they begin
anew there, the other scores, the cohort, kinds of text and weights of the parts. ensemble.json names every file with
its SHA-256, so that what is loaded is what was trained.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as format_safetensors
from torch import Tensor, nn

from ..config import ModelConfig
from ..data.fitness import Limits
from ..data.tokeniser import Tokeniser, find_tokeniser
from ..data.vocabulary import Vocabulary
from ..errors import EnvironmentFault
from ..files import reading, replace_folder, writing
from ..vote import SCORES, PlattScaling, check_odd
from .network import Network

FORMAT = 6
VARIABLE = "PAN21AV_MODELS"
# Large, and made of numbers whose last bits say nothing; the encoder's are, too.
HALVED = (
    "ngrams.weight", "layout.weight", "kinds.weight", "cohort.texts", "bfs.projection.weight", "bfs.between",
    "bfs.within",
)  # fmt: skip
MANIFEST = "ensemble.json"
MAX_MEMBERS = 999
MAX_FILE_BYTES = 1 << 30
STAGES = ("stage1", "stage2")
LOADING_THREADS = 4

Map = Callable[[Callable[[str], Tensor], Iterable[str]], Iterable[Tensor]]


@dataclass(frozen=True)
class Ensemble:
    """A network ready to run, and what belongs to it."""

    network: Network
    vocabulary: Vocabulary
    tokeniser: Tokeniser
    limits: Limits | None  # what texts must keep to; None: nothing is turned away
    path: Path
    info: dict[str, Any]  # ensemble.json
    calibration: PlattScaling | None = None  # of the answers, by training or on somebody's own pairs

    @property
    def name(self) -> str:
        return str(self.info.get("name") or self.path.name)

    @property
    def reading(self) -> dict[str, Any]:
        """How texts are read: repaired where the ensemble knows what a text should be like. For `encode_all`."""
        return {
            "tokeniser": self.tokeniser.name,
            "limit": self.network.config.max_tokens,
            "mend": self.limits is not None and self.tokeniser.mends,
            "layout": self.network.layout is not None,
        }


# Ensembles that go by a name: inside the package, in a clone through a link to models/.
NAMED = Path(__file__).resolve().parents[1] / "models"


def find_ensemble(models: str | os.PathLike[str] | None = None) -> Path:
    """The folder of an ensemble: a path, a name, or None for PAN21AV_MODELS or the shipped one."""
    named = os.fspath(models) if models else os.environ.get(VARIABLE)
    asked = named or "default"
    candidates = [NAMED / asked]
    if named:
        candidates = [Path(named), Path(named) / "default", *candidates]
    for folder in candidates:
        if (folder / MANIFEST).is_file():
            return folder
    places = "\n  ".join(str(folder / MANIFEST) for folder in dict.fromkeys(candidates))
    raise EnvironmentFault(
        f"no ensemble {asked!r}; looked for\n  {places}\n(--models or {VARIABLE} names a folder with {MANIFEST})"
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    with reading(folder / MANIFEST):
        data = (folder / MANIFEST).read_bytes()
    try:
        info = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise EnvironmentFault(f"{folder / MANIFEST} is damaged: {error}") from None
    found = info.get("format") if isinstance(info, dict) else None
    if found == 1:
        raise EnvironmentFault(
            f"{folder} is an ensemble of pan21av 0.1 (format 1): train it again with this version, "
            "or use it with the one that wrote it"
        )
    if not isinstance(info, dict) or found != FORMAT:
        raise EnvironmentFault(f"{folder / MANIFEST} has format {found!r}; this version reads format {FORMAT}")
    for key, kind in (("tokeniser", str), ("model", dict), ("vocabulary", dict), ("members", list)):
        if not isinstance(info.get(key), kind):
            raise EnvironmentFault(f"{folder / MANIFEST} is damaged: it lacks {key!r}")
    return info


def manifest_hash(folder: Path) -> str:
    """What tells ensembles apart: the manifest names all files with their hashes."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def load_ensemble(folder: Path, device: torch.device | None = None) -> Ensemble:
    """Load and check an ensemble; EnvironmentFault says what is wrong with it."""
    info = read_manifest(folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small copies: on a busy machine, threads would wait for each other
    try:
        tokeniser = find_tokeniser(info["tokeniser"])
        limits = Limits.from_dict(info["limits"]) if info.get("limits") else None
        calibration = PlattScaling.from_dict(info["calibration"]) if info.get("calibration") else None
        config = ModelConfig.from_dict(info["model"])
        entries = info["members"]
        if not isinstance(entries, list) or not 0 < len(entries) <= MAX_MEMBERS:
            raise ValueError(f"it lists no members, or more than {MAX_MEMBERS}")
        check_odd(len(entries))
        vocabulary = Vocabulary.from_json(_read_checked(folder, "vocab.json", info["vocabulary"]["sha256"]))
        # Hashing and converting release Python's lock, so that more cores load sooner.
        with ThreadPoolExecutor(LOADING_THREADS) as loaders:
            states = list(loaders.map(partial(_member_state, folder), entries))
            network = stack_members(config, vocabulary, states, loaders.map)
        _check_scores(network)
    except EnvironmentFault:
        raise
    except KeyError as error:
        raise EnvironmentFault(f"the ensemble in {folder} lacks {error}") from None
    except (ValueError, TypeError, RuntimeError, AttributeError, orjson.JSONDecodeError) as error:
        raise EnvironmentFault(f"the ensemble in {folder} cannot be used: {error}") from None
    finally:
        torch.set_num_threads(threads)
    network = network.to(device or torch.device("cpu")).eval()
    return Ensemble(network, vocabulary, tokeniser, limits, folder, info, calibration)


def _read_checked(folder: Path, name: str, sha256: str) -> bytes:
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a plain file name")
    path = folder / name
    with reading(path):
        if path.stat().st_size > MAX_FILE_BYTES:
            raise EnvironmentFault(f"{path} is larger than any member")
        data = path.read_bytes()
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise EnvironmentFault(f"{path} is damaged: its SHA-256 is {actual}, {MANIFEST} expects {sha256}")
    return data


def _member_state(folder: Path, entry: dict[str, Any]) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for stage in STAGES:
        name = entry[stage]["file"]
        try:
            tensors = parse_safetensors(_read_checked(folder, name, entry[stage]["sha256"]))
        except SafetensorError as error:
            raise EnvironmentFault(f"{folder / name} is damaged: {error}") from None
        for key, tensor in tensors.items():
            if key in state:
                raise EnvironmentFault(f"{folder / name}: {key} is in the other file of the member as well")
            state[key] = tensor
    return state


def stack_members(
    config: ModelConfig, vocabulary: Vocabulary, states: Sequence[Mapping[str, Tensor]], each: Map = map
) -> Network:
    """One network of members whose tensors, of any precision, have no leading M. A network of one member checks names
    and shapes, and is then widened: initial values for all of them would cost more than loading. `each` is `map`, or
    that of an executor."""
    network = Network(config, 1, vocabulary.word_rows, vocabulary.char_rows)
    kinds = {name: tensor.is_floating_point() for name, tensor in network.state_dict().items()}
    for state in states:
        for name, tensor in state.items():
            if kinds.get(name, True) != tensor.is_floating_point() or tensor.dtype is torch.bool or tensor.is_complex():
                raise ValueError(f"{name} holds numbers of another kind: {tensor.dtype}")
        network.load_state_dict({name: tensor[None] for name, tensor in state.items()}, assign=True)
    names = [name for name, _ in network.named_parameters()]
    for name, stacked in zip(names, each(partial(_stacked, states), names), strict=True):
        path, _, leaf = name.rpartition(".")
        setattr(network.get_submodule(path), leaf, nn.Parameter(stacked, requires_grad=False))
    _check_ngrams(network, vocabulary)
    return network


def _stacked(states: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
    """One tensor of all members, in single precision."""
    first = states[0][name]
    dtype = torch.float32 if first.is_floating_point() else first.dtype
    stacked = torch.empty((len(states), *first.shape), dtype=dtype)
    for number, (state, mine) in enumerate(zip(states, stacked, strict=True), 1):
        mine.copy_(state[name])
        if first.is_floating_point() and not _finite(mine):
            raise ValueError(f"{name} holds values that are not finite, in member {number}")
    return stacked


def _finite(tensor: Tensor) -> bool:
    """By its extremes, which a NaN is one of: several times faster than asking every number."""
    return not tensor.numel() or bool(torch.isfinite(torch.stack(tensor.aminmax())).all())


def _check_ngrams(network: Network, vocabulary: Vocabulary) -> None:
    if network.ngrams is None:
        return
    if vocabulary.ngrams is None:
        raise ValueError("its vocabulary lists no n-grams")
    for part in (network.ngrams, network.layout):
        index = None if part is None else part.index
        if index is None or not index.numel():
            continue
        if not 0 <= int(index.min()) <= int(index.max()) < len(vocabulary.ngrams):
            raise ValueError(f"a member reads n-grams that the vocabulary does not list ({len(vocabulary.ngrams):,})")


@torch.no_grad()
def _check_scores(network: Network) -> None:
    """Weights may be finite and yet give no probabilities: hostile ones are found before the work, not within it."""
    ones = torch.ones(network.config.projected_dim)
    extremes = torch.stack([ones, -ones]).expand(network.n_members, -1, -1)
    tokens = torch.tensor([1.0, network.config.max_tokens])
    scores = network.score(network.embedding(extremes, tokens).pair([0, 0, 1], [0, 1, 1]))
    for name in SCORES:
        faulty = ~torch.isfinite(getattr(scores, name)).all(1)
        if faulty.any():
            raise ValueError(f"p_{name} of member {int(faulty.nonzero()[0]) + 1} is not a number")


def compress(name: str, tensor: Tensor) -> Tensor:
    """The large ones in half precision; the rest, small and delicate, in full."""
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.contiguous()
    halve = name.startswith("encoder.") or name.endswith(HALVED)
    return (tensor.half() if halve else tensor.float()).contiguous()


def member_files(state: Mapping[str, Tensor], fitted: tuple[str, ...], *, half: bool = True) -> dict[str, bytes]:
    """One member, tensors without M, as the files of its two stages; `fitted`: how names of stage two's begin."""
    stages: dict[str, dict[str, Tensor]] = {stage: {} for stage in STAGES}
    for name, tensor in state.items():
        stage = STAGES[name.startswith(fitted)]
        stages[stage][name] = compress(name, tensor) if half else tensor.detach().cpu().contiguous()
    return {stage: format_safetensors(tensors) for stage, tensors in stages.items()}


def save_ensemble(
    folder: Path,
    *,
    config: ModelConfig,
    tokeniser: str,
    vocabulary: Vocabulary,
    members: Sequence[Mapping[str, bytes]],
    entries: Sequence[Mapping[str, Any]] | None = None,
    info: Mapping[str, Any] | None = None,
    extra: Mapping[str, bytes] | None = None,
) -> None:
    """Write an ensemble whole or not at all. `members` are the files of `member_files`;
    `entries` what else ensemble.json says of each; `info` and `extra` further keys and files."""
    check_odd(len(members))
    listed: list[dict[str, Any]] = [dict(entry) for entry in entries] if entries else [{} for _ in members]
    files: dict[str, bytes] = {"vocab.json": vocabulary.to_json(), **(extra or {})}
    for number, (entry, stages) in enumerate(zip(listed, members, strict=True), 1):
        for stage, data in stages.items():
            name = f"member-{number:02d}.{stage}.safetensors"
            files[name] = data
            entry[stage] = {"file": name, "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {
        "format": FORMAT,
        "name": folder.name,
        "tokeniser": tokeniser,
        "model": config.to_dict(),
        "vocabulary": {"sha256": vocabulary.sha256},
        **(info or {}),
        "members": listed,
    }
    files[MANIFEST] = orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
    with writing(folder):
        _write_folder(folder, files)


def derive_ensemble(base: Path, folder: Path, info: Mapping[str, Any], extra: Mapping[str, bytes]) -> None:
    """An ensemble with the files of another, `extra` ones beside or instead of them, and further keys in its manifest.
    Files are linked where the file system can: an ensemble is never changed in place, so both stay what they are."""
    manifest = {**read_manifest(base), **info, "name": folder.name}
    files = {**extra, MANIFEST: orjson.dumps(manifest, option=orjson.OPT_INDENT_2)}
    linked = [path for path in base.iterdir() if path.is_file() and path.name not in files]
    with writing(folder):
        _write_folder(folder, files, linked)


def _link(path: Path, folder: Path) -> None:
    try:
        os.link(path, folder / path.name)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, folder / path.name)


def _write_folder(folder: Path, files: Mapping[str, bytes], linked: Sequence[Path] = ()) -> None:
    """The files in a new folder, which then takes the place of the old one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".part", dir=folder.parent))
    try:
        for name, data in files.items():
            (building / name).write_bytes(data)
        for path in linked:
            _link(path, building)
        building.chmod(0o755)
        replace_folder(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
