"""The page of the command line: every command with all its options, as the commands declare them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer

from spectrem.cli.app import app


def write(path: Path) -> None:
    """Write the page in MyST's Markdown."""
    lines = ["# Command line", "", "`--help` shows the options for every day, `--help-all` all of these.", ""]
    for name, command in commands(typer.main.get_command(app), "spectrem"):
        lines += [f"## {name}", "", _text(command.help), ""]
        arguments = [one for one in command.params if one.opts[0][:1] != "-"]
        options = [one for one in command.params if one.opts[0][:1] == "-" and one.name not in ("help", "all_options")]
        if not getattr(command, "commands", None):
            usage = " ".join([name, *(_argument(one) for one in arguments), "[OPTIONS]"])
            lines += ["```text", usage, "```", ""]
            lines += [entry for one in (*arguments, *options) for entry in _entry(one)]
    text = "\n".join(lines) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All commands below one, itself included, with their full names."""
    yield name, command
    for below in sorted(getattr(command, "commands", ())):
        yield from commands(command.commands[below], f"{name} {below}")


def _argument(one: Any) -> str:
    shown = str(one.metavar or one.name).upper().strip("[]")
    return (shown if one.required else f"[{shown}]") + ("..." if one.nargs == -1 else "")


def _entry(one: Any) -> list[str]:
    """An option or argument as an entry of a definition list."""
    argument = one.opts[0][:1] != "-"
    names = _argument(one) if argument else ", ".join([*one.opts, *one.secondary_opts])
    choices = "|".join(map(str, get_args(one.type_descriptor.annotation)))
    value = "" if argument or one.is_flag else f" {one.metavar or choices or one.name.upper()}"
    default = one.show_default if isinstance(one.show_default, str) else one.default
    shown = "" if default in (None, "", False, (), []) or callable(default) else f" Default: `{default}`."
    return [f"`{names}{value}`", f": {_text(one.help).replace(chr(10), ' ')}{shown}", ""]


def _text(text: str | None) -> str:
    """Help as Markdown: without the marks by which the terminal wraps it."""
    return re.sub(r"\n{3,}", "\n\n", inspect.cleandoc(text or "").replace("\b", "").replace("\f", "")).replace(
        "<", r"\<"
    )
