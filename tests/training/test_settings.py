"""Settings in sections: from presets, TOML files and the command line, checked as they come."""

from dataclasses import replace

import pytest

from pan21av.config import ModelConfig
from pan21av.errors import InputError
from pan21av.network.layers import Dropout
from pan21av.training.settings import (
    PRESETS,
    SHIPPED,
    CalibrationSettings,
    DataSettings,
    HeadSettings,
    Settings,
    load_settings,
)


def test_a_preset_then_a_file_then_assignments(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("[pairs]\nlr = 0.001\nepochs = 9\n[model]\nencoder_dim = 20\n[data]\nsplit = 'authors'\n")
    settings = load_settings("paper", path, ["pairs.epochs=3", "data.split=topics", "pairs.clip=2"])
    assert (settings.pairs.lr, settings.pairs.epochs, settings.pairs.clip) == (0.001, 3, 2.0)
    assert type(settings.pairs.clip) is float  # where the file or the command has an integer
    assert (settings.model.encoder_dim, settings.data.split) == (20, "topics")
    untouched = replace(settings, pairs=PRESETS["paper"].pairs, model=ModelConfig(), data=DataSettings())
    assert untouched == PRESETS["paper"]


@pytest.mark.parametrize("preset", PRESETS)
def test_round_trip(preset):
    settings = PRESETS[preset].updated({"dropout": {"words": 0.25}, "model": {"variant": "published"}})
    values = settings.to_dict()
    assert Settings.from_dict(values) == settings
    assert list(values) == [
        "model", "data", "dropout", "contrastive", "pairs", "ngrams", "calibration", "heads", "abstention",
    ]  # fmt: skip
    assert values["dropout"]["words"] == 0.25


def test_presets():
    paper, compact = load_settings("paper"), load_settings("compact")
    assert paper == Settings()
    assert (paper.model.word_dim, compact.model.word_dim) == (300, 100)
    # The paper trains on pairs and keeps the scores of stage one; the compact one contrasts and fits them anew.
    assert (paper.contrastive.epochs, paper.pairs.epochs, paper.heads.epochs) == (0, 35, 0)
    assert compact.contrastive.epochs > 0
    assert compact.heads.epochs > 0
    assert paper.stage_one_epochs == 35
    assert compact.stage_one_epochs == compact.contrastive.epochs + compact.pairs.epochs
    # The paper's member is an encoder; the light one has none, and is compact otherwise.
    assert (paper.model.ngram_dim, paper.model.layout_dim, paper.calibration.cohort) == (0, 0, 0)
    assert compact.model.part_names == ("encoder", "layout", "ngrams")
    light = load_settings("light")
    assert light == compact.updated({"model": {"encoder_dim": 0}})
    assert light.stage_one_epochs == 0


def test_what_the_paper_does_to_texts_and_pairs():
    """DESIGN's numbers, and what `compact` has instead."""
    paper, compact = PRESETS["paper"].data, PRESETS["compact"].data
    assert (paper.tokeniser, paper.lowercase, paper.unique_texts, paper.vector_spread) == ("published", False, True, 0)
    assert (paper.words, paper.chars, paper.min_tokens) == (5000, 300, 100)
    assert (paper.split, paper.train_share, paper.drawing) == ("topics", 0.75, "published")
    assert (paper.max_pairs, paper.development_pairs) == (0, 0), "no other limit"
    model = PRESETS["paper"].model
    assert (model.window_tokens, model.window_hop, model.max_windows, model.chars_per_token) == (30, 26, 210, 15)
    assert (compact.tokeniser, compact.drawing, compact.vector_spread) == ("pan21av-1", "balanced", 0.3)
    assert (compact.lowercase, compact.unique_texts) == (True, False)
    assert (compact.max_pairs, compact.development_pairs) == (4000, 4000)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("pairs.leaning_rate=1", r"unknown setting 'pairs\.leaning_rate'; known: epochs, batch, lr"),
        ("warmup.epochs=1", r"unknown section 'warmup'; known: model, data, dropout"),
        ("STAGE_ONE.x=1", "unknown section 'STAGE_ONE'"),
        ("epochs=3", r"--set takes section\.name=value, as in heads\.lr=1e-3, not 'epochs=3'"),
        ("pairs.epochs", r"--set takes section\.name=value"),
        ("pairs.epochs=many", r"pairs\.epochs must be int, not 'many'"),
        ("pairs.epochs=1.5", r"pairs\.epochs must be int, not 1\.5"),
        ("pairs.epochs=true", r"pairs\.epochs must be int, not True"),
        ("pairs.lr=fast", r"pairs\.lr must be float, not 'fast'"),
        ("pairs.lr=true", r"pairs\.lr must be float, not True"),
        ("data.lowercase=1", r"data\.lowercase must be bool"),
        ("data.split=works", "data.split must be topics or authors, not 'works'"),
        ("data.drawing=fair", "data.drawing must be published or balanced, not 'fair'"),
        ("data.tokeniser=moses", "data.tokeniser must be pan21av-1 or published or spaces, not 'moses'"),
        ("data.split=3", r"data\.split must be str, not 3"),
        ("data.words=0", r"data\.words must be at least 1"),
        ("heads.batch=-5", r"heads\.batch must be at least 1"),
        ("model.encoder_dim=-1", r"model\.encoder_dim must be a number from 0 to 4096, not -1"),
        ("model.bfs_dim=0", r"model\.bfs_dim must be a number from 1 to 4096, not 0"),
        ("model.variant=other", "unknown model variant 'other'"),
        ("model.cohort=5", r"model\.cohort follows from the corpus; set calibration\.cohort"),
        ("model.kinds=5", r"model\.kinds follows from the corpus; see data\.source_share"),
        ("model.ngram_features=5", r"model\.ngram_features follows from the corpus; see \[ngrams\]"),
        ("model.layout_features=5", r"model\.layout_features follows from the corpus; see \[ngrams\]"),
        ("data.source_share=0.0", r"data\.source_share must be above 0 and at most 1"),
        ("data.source_share=1.01", r"data\.source_share must be above 0 and at most 1"),
        ("contrastive.max_windows=2", r"contrastive\.min_windows must not exceed contrastive\.max_windows"),
        ("pairs.min_windows=400", r"pairs\.min_windows must not exceed pairs\.max_windows"),
    ],
)
def test_settings_that_are_refused(assignment, message):
    with pytest.raises(InputError, match=message):
        load_settings("compact", None, [assignment])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epochs = 3", "unknown section 'epochs'"),  # before any section
        ("heads = 3", "unknown section 'heads'"),  # not a table
        ("[heads]\nlearning = 1", r"unknown setting 'heads\.learning'"),
        ("[heads", "settings.toml: Expected"),
    ],
)
def test_files_that_are_refused_are_named(tmp_path, content, message):
    path = tmp_path / "settings.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        load_settings("compact", path)
    assert str(path) in str(caught.value)


def test_one_assignment_may_need_another():
    """They are applied together: neither order of the two would be valid on its own."""
    for assignments in (
        ["contrastive.min_windows=40", "contrastive.max_windows=50"],
        ["calibration.cohort=5", "heads.epochs=2"],
    ):
        assert load_settings("compact", None, assignments) == load_settings("compact", None, assignments[::-1])


def test_a_member_must_read_something():
    with pytest.raises(InputError, match=r"model\.encoder_dim and model\.ngram_dim must not both be 0"):
        load_settings("compact", None, ["model.encoder_dim=0", "model.ngram_dim=0", "model.layout_dim=0"])


def test_layout_stands_beside_n_grams():
    """It may be left out by itself, they may not."""
    assert load_settings("compact", None, ["model.layout_dim=0"]).model.part_names == ("encoder", "ngrams")
    with pytest.raises(InputError, match=r"model\.layout_dim stands beside n-grams: it needs model\.ngram_dim"):
        load_settings("compact", None, ["model.ngram_dim=0"])


def test_ngrams_need_scores_that_begin_anew():
    """Stage one trains those of the encoder alone, so without an encoder there are none either."""
    for model in (ModelConfig(ngram_dim=4), ModelConfig(ngram_dim=4, encoder_dim=0)):
        with pytest.raises(ValueError, match=r"model\.ngram_dim needs heads\.epochs"):
            Settings(model=model)
        anew = Settings(model=model, heads=HeadSettings(epochs=1), calibration=CalibrationSettings(cohort=5))
        assert anew.model == model


def test_without_an_encoder_stage_one_has_no_epochs():
    settings = load_settings("compact", None, ["model.encoder_dim=0", "model.ngram_dim=4", "pairs.epochs=3"])
    assert settings.stage_one_epochs == 0
    assert settings.epochs == settings.heads.epochs + settings.abstention.epochs


def test_a_cohort_and_scores_that_begin_anew_go_together():
    for changes in ({"calibration": CalibrationSettings(cohort=5)}, {"heads": HeadSettings(epochs=1)}):
        with pytest.raises(ValueError, match=r"calibration\.cohort and heads\.epochs go together"):
            Settings(**changes)
    assert Settings(calibration=CalibrationSettings(cohort=5), heads=HeadSettings(epochs=1)).calibration.cohort == 5


@pytest.mark.parametrize(
    ("assignment", "equal"),
    [
        ("calibration.cohort=7", True),
        ("heads.lr=0.5", True),
        ("abstention.epochs=1", True),
        ("model.encoder_dim=30", False),
        ("data.words=100", False),
        ("dropout.lstm=0.5", False),
        ("contrastive.lr=0.5", False),
        ("pairs.epochs=1", False),
        ("ngrams.letters=9", False),
        ("ngrams.layout=9", False),
        ("model.layout_dim=9", False),
        ("calibration.per_source=9", True),
    ],
)
def test_what_stage_one_depends_on(assignment, equal):
    """Every section is on one side or the other."""
    one, other = PRESETS["compact"], load_settings("compact", None, [assignment])
    assert one != other
    assert (one.stage_one == other.stage_one) is equal


def test_updating_leaves_the_preset_as_it_was():
    before = PRESETS["compact"].to_dict()
    PRESETS["compact"].updated({"dropout": {"cnn": 0.4}})
    assert PRESETS["compact"].to_dict() == before
    assert PRESETS["compact"].dropout == Dropout(words=0.1)


def test_the_shipped_recipe_is_a_file_like_any_other(tmp_path):
    """It lies over "compact"; a file of one's own takes its place, assignments go over it."""
    shipped = load_settings()
    assert shipped == load_settings("default") == load_settings("compact", SHIPPED)
    assert shipped != PRESETS["compact"]
    own = tmp_path / "own.toml"
    own.write_text("[heads]\nepochs = 7\n")
    assert load_settings("default", own) == PRESETS["compact"].updated({"heads": {"epochs": 7}})
    assert load_settings("default", None, ["heads.epochs=7"]) == shipped.updated({"heads": {"epochs": 7}})


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("contrastive.authors=1", "contrastive.authors must be at least 2"),  # a batch of one would be drawn for ever
        ("abstention.eps_steps=0", "abstention.eps_steps must be at least 1"),
        ("calibration.draws=0", "calibration.draws must be at least 1"),
        ("calibration.cohort=1", "no author is in their own cohort"),
    ],
)
def test_settings_that_nothing_could_be_learnt_with(assignment, message):
    with pytest.raises(InputError, match=message):
        load_settings("default", None, [assignment])


# ---- the published numbers, and what was done before they had names ----


def test_the_papers_training():
    """DESIGN 1.2: stage one and O2D2."""
    pairs, o2d2 = PRESETS["paper"].pairs, PRESETS["paper"].abstention
    assert (pairs.epochs, pairs.batch, pairs.lr, pairs.lr_end, pairs.lr_fall_epochs) == (35, 40, 6e-4, 2e-4, 30)
    assert (pairs.clip, pairs.clip_per, pairs.init) == (5, "gate", "published")
    assert (o2d2.epochs, o2d2.batch, o2d2.lr, o2d2.lr_end, o2d2.lr_fall_epochs) == (60, 30, 1e-3, 5e-4, 100)
    assert (o2d2.clip, o2d2.dropout, o2d2.eps_min, o2d2.eps_max) == (5, 0.25, 0.05, 0.15)


@pytest.mark.parametrize("name", ["dropout.per", "pairs.clip_per", "pairs.init"])
def test_words_that_are_unknown(name):
    with pytest.raises(InputError, match=rf"{name} must be \w+ or \w+, not 'other'"):
        load_settings("paper", None, [f"{name}=other"])
