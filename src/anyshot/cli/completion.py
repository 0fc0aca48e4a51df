"""`anyshot completion`: what makes a shell complete what one types."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING

from anyshot.errors import InputError

if TYPE_CHECKING:
    from anyshot.cli.taking import Taken

SHELLS = ("bash", "zsh", "fish")
HELP = """usage: anyshot completion bash|zsh|fish

Print a script that makes the shell complete commands, presets, learners, task sets, options and their values.

  bash   add to ~/.bashrc:  eval "$(anyshot completion bash)"
  zsh    add to ~/.zshrc, after compinit:  eval "$(anyshot completion zsh)"
  fish   once, and again after an upgrade:  anyshot completion fish > ~/.config/fish/completions/anyshot.fish

options:
  -h, --help  show this help message and exit"""
BASH = """_anyshot() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=""
    if [[ $command == data && $COMP_CWORD -gt 2 ]]; then command="data ${{COMP_WORDS[2]}}"; fi
    if [[ $COMP_CWORD -eq 1 ]]; then
        words="{commands} --help --version"
    else
        case "$command $previous" in
{values}
        *)
            case "$command $previous $current" in
{words}
            esac
            ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _anyshot anyshot"""


def main(words: list[str]) -> None:
    """Run the command."""
    if words in (["-h"], ["--help"]) or not words:
        print(HELP)
        sys.exit(0 if words else 2)
    if len(words) > 1 or words[0] not in SHELLS:
        near = difflib.get_close_matches(words[0], SHELLS, 1)
        raise InputError(
            f"anyshot completion takes one of {', '.join(SHELLS)}, got {' '.join(words)!r}"
            + (f"; did you mean {near[0]}?" if near else "")
        )
    from anyshot.cli.taking import commands

    print(_fish(commands()) if words[0] == "fish" else _bash(commands(), zsh=words[0] == "zsh"))


def _bash(commands: dict[str, Taken], zsh: bool) -> str:
    values, plain = [], []
    for command, taken in sorted(commands.items(), key=lambda one: -len(one[0])):  # "data list" before "data"
        for option, following in taken.options.items():
            if following is not None:
                values.append(f'        "{command} {option}") words="{" ".join(following)}" ;;')
        every = " ".join(taken.options)
        plain.append(f'            "{command} "*" -"*) words="{every}" ;;')
        if taken.words:  # which come right behind the command
            plain.append(f'            "{command} {command.split()[-1]} "*) words="{" ".join(taken.words)}" ;;')
        if not taken.files:  # only an option can stand there
            plain.append(f'            "{command} "*) words="{every}" ;;')
    top = " ".join(command for command in commands if " " not in command)
    script = BASH.format(commands=top, values="\n".join(values), words="\n".join(plain))
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if zsh else script


def _fish(commands: dict[str, Taken]) -> str:
    from anyshot.cli import COMMANDS

    lines = ["complete -c anyshot -f", "complete -c anyshot -n __fish_use_subcommand -l help -l version"]
    for command, told in COMMANDS.items():
        lines.append(f"complete -c anyshot -n __fish_use_subcommand -a {command} -d '{told}'")
    for command, taken in commands.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        to = f"complete -c anyshot -n '{seen}'"
        if taken.words:
            lines.append(f"{to} -a '{' '.join(taken.words)}'")
        if taken.files:
            lines.append(f"{to} -F")
        for option, following in taken.options.items():
            value = "" if following is None else f" -x -a '{' '.join(following)}'" if following else " -r -F"
            lines.append(f"{to} -l {option.removeprefix('--')}{value}")
    return "\n".join(lines)
