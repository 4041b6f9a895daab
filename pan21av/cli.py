"""The command line: parse, call the verb, print. Torch is loaded only by commands that need it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click
import orjson

from . import __version__
from .errors import PanError

models_option = click.option(
    "--models", metavar="FOLDER|NAME", help="The ensemble; default: PAN21AV_MODELS, else the shipped one."
)
device_option = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N")
threads_option = click.option("--threads", type=click.IntRange(1), help="Default: the cores this process may use.")
engine_option = click.option(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
    help="The cores of this machine, or a Ray cluster.",
)  # fmt: skip
address_option = click.option("--address", help="Of the Ray cluster; default: RAY_ADDRESS, else one on this machine.")

population_option = click.option(
    "--population", metavar="FILE|FOLDER",
    help="10 to 500 other texts of this kind, by other people: files, JSON lines, or a kept .npz.",
)  # fmt: skip
prior_option = click.option(
    "--prior", type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="The probability of one author before the texts were read, if not a half.",
)  # fmt: skip
resources_option = click.option("--resources", help="What a Ray task asks for, as in CPU=2,GPU=0.5.")


class _Group(click.Group):
    """Turns our errors into one line and an exit code; --debug shows the traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PanError as error:
            if ctx.params.get("debug"):
                raise
            click.echo(f"pan21av: {error}", err=True)
            ctx.exit(error.exit_code)
        except MemoryError:
            click.echo("pan21av: out of memory", err=True)
            ctx.exit(3)
        except KeyboardInterrupt:
            click.echo("pan21av: interrupted; run the same command again to go on", err=True)
            ctx.exit(130)
        except BrokenPipeError:  # whoever read our output has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(3)
        except click.BadParameter as error:
            if isinstance(error, click.MissingParameter):
                raise  # then the usage is what one wants to see
            click.echo(f"pan21av: {error.format_message()}", err=True)
            ctx.exit(error.exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            click.echo(f"pan21av: internal error: {error!r} (--debug shows where)", err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pan21av")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but warnings and errors.")
def main(debug: bool, quiet: bool) -> None:
    """Did the same person write two texts? A calibrated probability, or 0.5: "I cannot tell".

    Exit codes: 0 done, 1 internal error, 2 bad input or usage, 3 environment, 130 interrupted.
    """
    # `docker stop` and the like end a run as Ctrl-C does: what was done is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its fonts
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING if quiet else logging.INFO)


@main.command()
@click.option(
    "-i", "--input", "source", envvar=["inputDataset", "TIRA_INPUT_DATASET"], required=True, metavar="FILE|DIR|-",
    help="Trials as JSON lines, .csv or .tsv, or a folder of PAN's problem folders; on TIRA taken from $inputDataset.",
)  # fmt: skip
@click.option(
    "-o", "--output", envvar=["outputDir", "TIRA_OUTPUT_DIR"], required=True, metavar="DIR",
    help="Where answers.jsonl goes; on TIRA taken from $outputDir.",
)  # fmt: skip
@models_option
@device_option
@threads_option
@click.option(
    "--population", metavar="FILE|FOLDER|self",
    help="Other texts of this kind, by other people; `self` samples the input. PAN's trials are to be answered one by "
    "one, so for those leave it out.",
)  # fmt: skip
@click.option("--columns", metavar="ID,TEXT1,TEXT2", help="Columns of a CSV or TSV input [id,text1,text2].")
@click.option("--lenient", is_flag=True, help="Skip lines that are not trials, instead of stopping.")
@click.option("--details", is_flag=True, help="Also write what every member says (details.npy), and ratios.csv.")
@engine_option
@address_option
@resources_option
def predict(source: str, output: str, columns: str | None, **options: Any) -> None:
    """Answer every trial of a pairs.jsonl. A broken run goes on where it stopped."""
    from .commands.predict import predict as run
    from .data.tables import parse_columns

    run(source, output, columns=parse_columns(columns) if columns is not None else None, **options)


@main.command(short_help="One text against others, in words.")
@click.argument("questioned", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("known", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@prior_option
@population_option
@models_option
@device_option
@threads_option
def verify(questioned: Path, known: tuple[Path, ...], as_json: bool, prior: float | None, **options: Any) -> None:
    """Compare a text file with another, or with several (files or folders) that one person wrote."""
    from .commands.verify import format_verdict, verdict_dict
    from .commands.verify import verify as run
    from .data.gather import read_texts
    from .data.readers import read_text_file

    texts = read_texts(list(known))
    verdict = run(read_text_file(questioned), list(texts.values()), **options)
    click.echo(orjson.dumps(verdict_dict(verdict, prior)) if as_json else format_verdict(verdict, prior, list(texts)))


@main.command(short_help="Who of several people wrote a text, or none.")
@click.argument("questioned", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--known", "people", required=True, type=click.Path(exists=True, path_type=Path), metavar="FOLDER",
    help="A folder, or a file, for each person who may have written it.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A page, .html, with a matrix.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@prior_option
@population_option
@models_option
@device_option
@threads_option
def attribute(questioned: tuple[Path, ...], people: Path, as_json: bool, prior: float | None, **options: Any) -> None:
    """Who of several people wrote a text, or none of them? Each is judged alone, and they are ranked."""
    from .commands.attribute import attribute as run
    from .commands.attribute import format_attributions, report_dict
    from .data.gather import read_people, read_texts
    from .verdict import CAUTION

    found = run(read_texts(list(questioned)), read_people(people), **options)
    if as_json:
        click.echo(orjson.dumps(report_dict(found, prior)))
    else:
        click.echo(f"{format_attributions(found, prior)}\n{CAUTION}")


@main.command(short_help="Keep texts of a kind, for --population.")
@click.option("-i", "--input", "source", required=True, metavar="FILE|FOLDER", help="Files, or JSON lines.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file, .npz")
@models_option
def population(source: str, output: Path, **options: Any) -> None:
    """Keep 10 to 500 texts of a kind, by other people, for --population; for one ensemble."""
    from .commands.population import population as run

    click.echo(f"{run(source, output, **options).words} -> {output}")


@main.command(short_help="Documents to style vectors.")
@click.option("-i", "--input", "source", required=True, metavar="FILE", help='JSON lines {"id", "text"}.')
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file, .npz")
@population_option
@models_option
@device_option
@threads_option
def embed(source: str, output: Path, **options: Any) -> None:
    """Documents to style vectors, whose cosine tells how alike two are."""
    from .commands.embed import embed as run

    run(source, output, **options)


@main.command(short_help="A page on one pair, to look at.")
@click.argument(
    "texts", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[A.txt B.txt]"
)
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The page, .html")
@click.option("-i", "--input", "source", metavar="FILE|DIR", help="A pairs.jsonl to take the trial --id from.")
@click.option("--id", "trial", help="Which trial of -i.")
@prior_option
@population_option
@models_option
@device_option
@threads_option
def explain(texts: tuple[Path, ...], output: Path, source: str | None, trial: str | None, **options: Any) -> None:
    """A page on one pair: verdict, members, scores, habits, and where the encoder looked."""
    from .commands.explain import explain as run
    from .commands.explain import find_trial
    from .data.readers import read_text_file
    from .verdict import three_figures

    if len(texts) == 2 and source is None and trial is None:
        first, second = map(read_text_file, texts)
        names = (texts[0].name, texts[1].name)
    elif not texts and source is not None and trial is not None:
        first, second = find_trial(source, trial)
        names = (f"{trial}, first text", f"{trial}, second text")
    else:
        raise click.UsageError("give two text files, or -i PAIRS and --id ID")
    verdict = run(first, second, output, names=names, **options)
    click.echo(f"{verdict.words} (probability of one author: {three_figures(verdict.probability)}) -> {output}")


@main.command(short_help="Which ensemble would answer, and on what.")
@models_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(as_json: bool, **options: Any) -> None:
    """Which ensemble would answer, and on what; its card has the rest."""
    from .commands.info import format_info
    from .commands.info import info as run

    facts = run(**options)
    click.echo(orjson.dumps(facts) if as_json else format_info(facts))


@main.command(short_help="The paper's tables and figures.")
@click.argument("models", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to, instead of the ensemble's folder.")
def report(models: str | None, output: Path | None) -> None:
    """The paper's tables and figures, from what training stored with the ensemble MODELS (a folder or a name)."""
    from .commands.report import report as run

    run(models, output=output)


@main.command("import-published", short_help="The authors' weights to an ensemble.")
@click.argument("weights", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the new ensemble.")
def import_published(weights: tuple[Path, ...], output: Path) -> None:
    """Turn the authors' published weights (one pickle per member) into an ensemble."""
    from .network.import_published import import_published as run

    run(list(weights), output)
    click.echo(f"{len(weights)} members -> {output}")


@main.command(short_help="Score answers by PAN's and forensic measures.")
@click.option("-a", "--answers", multiple=True, required=True, help="Answers (file or directory); repeat to compare.")
@click.option("-t", "--truth", required=True, help="PAN's truth.jsonl, or a directory that holds it.")
@click.option("-p", "--pairs", help="The trials, for figures by length of text and kind of pair.")
@click.option("-o", "--output", help="Folder for out.json, evaluation.prototext and pictures.")
@click.option(
    "--bootstrap", default=1000, show_default=True, type=click.IntRange(0), help="Samples for 95 % intervals."
)
@click.option("--json", "as_json", is_flag=True, help="Print the unrounded measures as JSON.")
def evaluate(as_json: bool, **options: Any) -> None:
    """Score answers by PAN 2021's measures, their calibration, and as likelihood ratios."""
    from .commands.evaluate import evaluate as run
    from .commands.evaluate import format_report, report_dict

    report = run(**options)
    for result in report.results:
        for problem in result.problems:
            click.echo(f"pan21av: {result.name}: {problem}", err=True)
    if as_json:
        systems = report_dict(report)
        click.echo(orjson.dumps(systems[0] if len(systems) == 1 else systems, option=orjson.OPT_INDENT_2))
    else:
        click.echo(format_report(report))


@main.command(short_help="Fit answers to labelled pairs of your own.")
@click.option("-i", "--input", "source", required=True, metavar="FILE|DIR", help="Labelled pairs of your own.")
@click.option("-t", "--truth", required=True, help="Their truth.jsonl, which names the authors.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the new ensemble.")
@models_option
@device_option
@threads_option
def calibrate(source: str, truth: str, output: Path, **options: Any) -> None:
    """Let an ensemble's answers mean what they say on your own kind of text.

    It takes 20 authors and 30 pairs of either kind at least; 200 pairs do well. Fits a shift and scale of the answers'
    logits, shrunk by cross-validation over authors, and writes nothing if that does not help.
    """
    from .commands.calibrate import calibrate as run
    from .commands.calibrate import format_recalibration

    click.echo(format_recalibration(run(source, truth, output, **options), output))


@main.command(short_help="Train an ensemble of your own.")
@click.argument("data", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the new ensemble.")
@click.option("--truth", type=click.Path(path_type=Path), help="PAN's truth.jsonl, if DATA is a pairs.jsonl.")
@click.option("--vectors", type=click.Path(path_type=Path), help="Word vectors as text (GloVe, word2vec, fastText).")
@click.option(
    "--preset", type=click.Choice(["default", "light", "compact", "paper"]), default="default",
    show_default=True,
    help="The shipped ensemble's recipe; n-grams and layout alone, in minutes; these and a small encoder; the paper's.",
)  # fmt: skip
@click.option(
    "--config", type=click.Path(exists=True, path_type=Path), help="Settings as a TOML file, instead of the recipe."
)
@click.option("--set", "assignments", multiple=True, metavar="SECTION.NAME=VALUE", help="One setting; may be repeated.")
@click.option(
    "--split",
    type=click.Choice(["topics", "authors"]),
    help="What training, calibration and validation must not share.",
)
@click.option("--notes", type=click.Path(exists=True, path_type=Path), help="Markdown to go into the model card.")
@click.option("--members", "n_members", default=21, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--work", type=click.Path(path_type=Path), help="Where unfinished work is kept [OUTPUT.work].")
@click.option("--jobs", type=click.IntRange(1), help="Members side by side [the cores, or one per GPU].")
@device_option
@engine_option
@address_option
@resources_option
def train(
    data: tuple[Path, ...], output: Path, preset: str, config: Path | None, assignments: tuple[str, ...],
    split: str | None, **options: Any,
) -> None:  # fmt: skip
    """Train an ensemble on DATA: documents.jsonl (one or several), or PAN's pairs.jsonl with its truth."""
    from .training.run import train as run
    from .training.settings import load_settings

    if split:
        assignments = (*assignments, f"data.split={split}")
    run(list(data), output, settings=load_settings(preset, config, assignments), **options)
