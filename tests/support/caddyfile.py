"""Reads Caddyfiles, as far as tests need it: Caddy itself is not part of the tests."""

import re

Block = list[tuple[list[str], "Block"]]


def parse(text: str) -> Block:
    """The directives of a Caddyfile: their words, and what is in their braces."""
    stack: list[Block] = [[]]
    for line in text.splitlines():
        words = [word for word in re.sub(r"(^|\s)#.*", "", line).split() if word]
        if not words:
            continue
        if words == ["}"]:
            stack.pop()
            assert stack, "a brace too many"
            continue
        block: Block = []
        opens = words[-1] == "{"
        stack[-1].append((words[:-1] if opens else words, block))
        if opens:
            stack.append(block)
    assert len(stack) == 1, "a brace is not closed"
    return stack[0]
