"""Ensembles on disk: ensemble.json, vocab.json and two safetensors files per member.

ensemble.json names every file with its SHA-256, so that what is loaded is what was trained.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as format_safetensors
from torch import Tensor, nn

from .config import ModelConfig
from .ensemble import check_odd
from .errors import EnvironmentFault
from .model import Members
from .text import RECIPES
from .vocabulary import Vocabulary

FORMAT = 1
VARIABLE = "PAN21AV_MODELS"
MANIFEST = "ensemble.json"
MAX_MEMBERS = 999
MAX_FILE = 1 << 30


@dataclass(frozen=True)
class Ensemble:
    """Members ready to run, and what belongs to them."""

    members: Members
    vocabulary: Vocabulary
    recipe: str
    path: Path
    info: dict[str, Any]  # ensemble.json

    @property
    def name(self) -> str:
        return str(self.info.get("name") or self.path.name)


def search_path() -> list[Path]:
    """Where ensembles are looked for by name: beside the package (a clone), inside it (a wheel)."""
    package = Path(__file__).resolve().parent
    return [package.parent / "models", package / "models"]


def find_ensemble(models: str | os.PathLike[str] | None = None) -> Path:
    """The folder of an ensemble: a path, a name, or None for PAN21AV_MODELS or the shipped one."""
    named = os.fspath(models) if models else os.environ.get(VARIABLE)
    asked = named or "default"
    candidates = [folder / asked for folder in search_path()]
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
    try:
        info = orjson.loads((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise EnvironmentFault(f"{folder / MANIFEST}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise EnvironmentFault(f"{folder / MANIFEST} is damaged: {error}") from None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        found = info.get("format") if isinstance(info, dict) else None
        raise EnvironmentFault(f"{folder / MANIFEST} has format {found!r}; this version reads format {FORMAT}")
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
        recipe = info["recipe"]
        if recipe not in RECIPES:
            raise ValueError(f"unknown text recipe {recipe!r}; this version knows {', '.join(RECIPES)}")
        config = ModelConfig.from_dict(info["model"])
        entries = info["members"]
        if not isinstance(entries, list) or not 0 < len(entries) <= MAX_MEMBERS:
            raise ValueError(f"it lists no members, or more than {MAX_MEMBERS}")
        check_odd(len(entries))
        vocabulary = Vocabulary.from_json(_read_checked(folder, "vocab.json", info["vocabulary"]["sha256"]))
        states = [_member_state(folder, entry) for entry in entries]
        members = _stack(config, vocabulary, states)
        _check_scores(members)
    except EnvironmentFault:
        raise
    except KeyError as error:
        raise EnvironmentFault(f"the ensemble in {folder} lacks {error}") from None
    except (ValueError, TypeError, RuntimeError, AttributeError, orjson.JSONDecodeError) as error:
        raise EnvironmentFault(f"the ensemble in {folder} cannot be used: {error}") from None
    finally:
        torch.set_num_threads(threads)
    return Ensemble(members.to(device or torch.device("cpu")).eval(), vocabulary, recipe, folder, info)


def _read_checked(folder: Path, name: str, sha256: str) -> bytes:
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a plain file name")
    path = folder / name
    try:
        if path.stat().st_size > MAX_FILE:
            raise EnvironmentFault(f"{path} is larger than any member")
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror}") from None
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise EnvironmentFault(f"{path} is damaged: its SHA-256 is {actual}, {MANIFEST} expects {sha256}")
    return data


def _member_state(folder: Path, entry: dict[str, Any]) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for part in ("stage1", "o2d2"):
        name = entry[part]["file"]
        try:
            tensors = parse_safetensors(_read_checked(folder, name, entry[part]["sha256"]))
        except SafetensorError as error:
            raise EnvironmentFault(f"{folder / name} is damaged: {error}") from None
        for key, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                raise EnvironmentFault(f"{folder / name}: {key} holds values that are not finite")
            state[key] = tensor.float()
    return state


def _stack(config: ModelConfig, vocabulary: Vocabulary, states: Sequence[Mapping[str, Tensor]]) -> Members:
    """One stacked network. A network of one member checks names and shapes, and is then widened:
    initial values for all of them would cost more than loading."""
    members = Members(config, 1, vocabulary.word_rows, vocabulary.char_rows)
    for state in states:
        members.load_state_dict({name: tensor[None] for name, tensor in state.items()})
    for name, _ in list(members.named_parameters()):
        path, _, leaf = name.rpartition(".")
        stacked = torch.stack([state[name] for state in states])
        setattr(members.get_submodule(path), leaf, nn.Parameter(stacked, requires_grad=False))
    members.count = len(states)
    return members


@torch.no_grad()
def _check_scores(members: Members) -> None:
    """Weights may be finite and yet give no probabilities: hostile ones are found before the work, not within it."""
    extremes = torch.stack([torch.ones(members.config.lev_dim), -torch.ones(members.config.lev_dim)])
    levs = extremes.expand(members.count, -1, -1)
    if members.strangers is not None:
        tokens = torch.tensor([1.0, members.config.max_tokens])
        levs = torch.cat(
            [levs, torch.stack([members.strangers.behind(m, extremes, tokens) for m in range(members.count)])], -1
        )
    scores = members.score(members.pair(levs[:, [0, 0, 1]], levs[:, [0, 1, 1]]))
    for name in ("dml", "bfs", "ual", "o2d2"):
        faulty = ~torch.isfinite(getattr(scores, name)).all(1)
        if faulty.any():
            raise ValueError(f"p_{name} of member {int(faulty.nonzero()[0]) + 1} is not a number")


def _write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def compress(name: str, tensor: Tensor) -> Tensor:
    """The large ones, of encoder, style and strangers, in half precision; the scores, small and delicate, in full."""
    tensor = tensor.detach().cpu()
    halve = name.startswith("encoder.") or name in ("style.weight", "strangers.levs")
    return (tensor.half() if halve else tensor.float()).contiguous()


def member_files(state: Mapping[str, Tensor], *, half: bool) -> dict[str, bytes]:
    """One member as two safetensors files: everything but O2D2, and O2D2."""
    parts: dict[str, dict[str, Tensor]] = {"stage1": {}, "o2d2": {}}
    for name, tensor in state.items():
        part = "o2d2" if name.startswith("o2d2.") else "stage1"
        parts[part][name] = compress(name, tensor) if half else tensor.detach().cpu().contiguous()
    return {part: format_safetensors(tensors) for part, tensors in parts.items()}


def save_ensemble(
    folder: Path,
    *,
    config: ModelConfig,
    recipe: str,
    vocabulary: Vocabulary,
    members: Sequence[Mapping[str, bytes]],
    entries: Sequence[Mapping[str, Any]] | None = None,
    info: Mapping[str, Any] | None = None,
    extra: Mapping[str, bytes] | None = None,
) -> None:
    """Write an ensemble whole or not at all. `members` are the files of `member_files`;
    `entries` what else ensemble.json says of each; `info` and `extra` further keys and files."""
    check_odd(len(members))
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".part", dir=folder.parent))
    try:
        listed = []
        for number, files in enumerate(members, 1):
            entry: dict[str, Any] = dict(entries[number - 1]) if entries else {}
            for part, data in files.items():
                name = f"member-{number:02d}.{part}.safetensors"
                entry[part] = {"file": name, "sha256": _write(building / name, data)}
            listed.append(entry)
        manifest = {
            "format": FORMAT,
            "name": folder.name,
            "recipe": recipe,
            "model": config.to_dict(),
            "vocabulary": {"sha256": _write(building / "vocab.json", vocabulary.to_json())},
            **(info or {}),
            "members": listed,
        }
        for name, data in (extra or {}).items():
            _write(building / name, data)
        _write(building / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
        building.chmod(0o755)
        old = folder.with_name(f".{folder.name}.old")
        if folder.exists():
            folder.rename(old)
        building.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(building, ignore_errors=True)
