"""``killpoint check --base``: what a review prints and leaves."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import msgspec

from killpoint.errors import BadUsage
from killpoint.judgement.judge import plan
from killpoint.progress.display import Watcher
from killpoint.review import comment
from killpoint.review.outcome import Review
from killpoint.review.run import BUDGET, Settings, review, tree_of

_ALONE = {"known": "--known", "junit": "--junit", "first": "--first", "store_durations": ""}


def add_option(check: argparse.ArgumentParser) -> None:
    """The option of ``check`` that asks for a review."""
    check.add_argument(
        "--base",
        metavar="REV",
        help="of a target NAME@TREE: what is new and gone against this git revision of the tree;"
        " what the change touches is asked first, within --budget for both (default"
        f" {BUDGET:g}); status 1 something new, 0 nothing, 3 it could not be told (docs/review.md)",
    )


def refuse(options: argparse.Namespace) -> None:
    """See that a review can be asked this.

    Raises:
        BadUsage: another target than a tree, or an option that has no meaning here.
    """
    tree_of(options.target)
    for name, text in _ALONE.items():
        if getattr(options, name):
            words = text or "--store-durations"
            raise BadUsage(f"{words} cannot be given with --base, which compares two runs")
    if options.shard != (1, 1):
        raise BadUsage("--shard cannot be given with --base, which compares two runs")


def perform(options: argparse.Namespace, folder: Path, watcher: Watcher) -> int:
    """Review, print what came of it, and leave the comment; the exit status."""
    settings = Settings(
        without=options.without or (),
        seed=options.seed,
        full=options.full,
        budget=options.budget or BUDGET,
        jobs=options.jobs,
        device=options.device,
        depth=options.depth,
        attribution=options.attribution,
    )
    found = review(
        options.target,
        options.base,
        plan(options.only or (), tier=options.tier),
        folder,
        settings,
        progress=watcher.ended,
        told=watcher.told,
        tell=watcher.say,
    )
    text, file = comment.markdown(found), folder / "comment.md"
    file.write_text(text, "utf-8")
    for path in _summaries(options):
        with path.open("a", encoding="utf-8") as summary:
            summary.write(text)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        _print(found, file)
    return found.status()


def _summaries(options: Any) -> list[Path]:
    own = os.environ.get("GITHUB_STEP_SUMMARY") if options.annotate else None
    return [options.summary] if options.summary else [Path(own)] if own else []


def _print(found: Review, file: Path) -> None:
    print(f"{found.target} against {found.base}")
    for each in found.new:
        print(f"✗ {comment.headline(each)}\n  {each.cause}")
        if each.replay:
            print(f"  killpoint replay {each.replay}")
    for each in found.gone:
        print(f"✓ gone: {comment.headline(each)}")
    for line in found.unsure:
        print(f"? {line}")
    if found.left_out:
        print(f"{len(found.left_out)} cases were not asked, for want of time")
    print(f"{comment.ending(found)} in {found.seconds:.1f} s")
    print(f"comment: {file}")
