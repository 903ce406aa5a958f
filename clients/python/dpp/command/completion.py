"""Scripts for shells, made from what the command understands, so that they cannot say otherwise."""

import argparse
from typing import Any

_BASH = """_dpp() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"; else
    case "${{COMP_WORDS[1]}}" in
{cases}
      *) words="" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _dpp dpp
"""


def completion_script(shell: str, parser: argparse.ArgumentParser) -> str:
    known = _known(parser)
    if shell == "fish":
        return "".join(_fish(name, words) for name, words in known.items())
    cases = "\n".join(f'      {name}) words="{" ".join(words)}" ;;' for name, words in known.items())
    bash = _BASH.format(commands=" ".join(known), cases=cases)
    return bash if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{bash}"


def _known(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001  argparse has no public way to read its own
    return {name: _words(one) for name, one in commands.choices.items()}


def _words(command: Any) -> list[str]:
    found: list[str] = []
    for action in command._actions:  # noqa: SLF001  as above
        found += [option for option in action.option_strings if option.startswith("--")]
        found += [] if action.option_strings or not action.choices else list(action.choices)
    return found


def _fish(name: str, words: list[str]) -> str:
    lines = [f"complete -c dpp -n __fish_use_subcommand -a {name}"]
    for word in words:
        what = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
        lines.append(f"complete -c dpp -n '__fish_seen_subcommand_from {name}' {what}")
    return "\n".join(lines) + "\n"
