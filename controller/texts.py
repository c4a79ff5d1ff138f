"""Text from outside: other programs' words, before they reach a log, a terminal or status."""


def bounded(text: str, limit: int) -> str:
    """Return the text as one printable line of at most `limit` characters, with an ellipsis where it is cut.

    White space becomes single spaces; control characters, and those that reorder or hide text, are dropped.
    """
    line = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return line if len(line) <= limit else line[: limit - 1] + "…"
