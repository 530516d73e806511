#!/usr/bin/env python3
"""Records a command in a terminal and writes the session as an animated SVG.

    pip install pyte==0.8.2
    tools/terminal_svg.py -o docs/figures/terminal.svg --rows 100 --first-rows 30 -- poseidon run scenarios/quickstart.toml

The command runs in a pseudo terminal. Each line of the screen becomes one text element per content, which is visible
while the terminal showed it. Pauses are shortened to --pause seconds. Readers who prefer reduced motion, and programs
that do not animate, see the last screen."""

import argparse
import fcntl
import html
import os
import pty
import select
import struct
import sys
import termios
import time

import pyte

PROMPT = "$ "
CHARACTER, LINE, MARGIN = 8.4, 18, 14
COLORS = {
    "red": "#ff8272", "green": "#9bd98c", "brown": "#f0c674", "yellow": "#f0c674", "blue": "#8ab4f8",
    "magenta": "#d7a6ff", "cyan": "#8bd5ca", "white": "#e8e6e3", "black": "#7f848e", "default": "#e8e6e3",
}


def record(command, columns, rows, pause):
    """Runs the command and returns a list of (time, screen); a screen is a tuple of styled lines."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    typed = PROMPT + " ".join(command)
    frames = []
    clock = 0.0
    # The command line appears as if typed, then the command runs.
    for end in range(len(PROMPT), len(typed) + 1, 3):
        screen.reset()
        screen.draw(typed[:end])
        frames.append((clock, snapshot(screen)))
        clock += 0.06
    screen.reset()
    stream.feed((typed + "\r\n").encode())
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LINES=str(rows))
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = time.monotonic()
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        try:
            data = os.read(terminal, 65536) if ready else b""
            if ready and not data:
                break
        except OSError:
            break
        now = time.monotonic()
        if data:
            stream.feed(data)
            frames.append((clock + min(now - before, pause), snapshot(screen)))
            clock, before = frames[-1][0], now
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"terminal_svg: the command failed with status {os.waitstatus_to_exitcode(status)}")
    return frames


def snapshot(screen):
    """Returns the screen as a tuple of lines; a line is a tuple of (text, color, is_bold)."""
    lines = []
    for row in range(screen.lines):
        spans = []
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            style = (cell.fg, cell.bold)
            if spans and spans[-1][1:] == style:
                spans[-1] = (spans[-1][0] + cell.data, *style)
            else:
                spans.append((cell.data, *style))
        while spans and not spans[-1][0].strip():
            spans.pop()
        if spans:
            spans[-1] = (spans[-1][0].rstrip(), *spans[-1][1:])
        lines.append(tuple(spans))
    return tuple(lines)


def intervals(frames, end):
    """Yields (row, line, first, last) for each content of a row."""
    for row in range(len(frames[0][1])):
        shown, since = (), 0.0
        for at, screen in frames:
            if screen[row] != shown:
                if shown and at > since:
                    yield row, shown, since, at
                shown, since = screen[row], at
        if shown:
            yield row, shown, since, end


def render(frames, columns, hold, first_rows):
    """Returns the SVG text."""
    end = frames[-1][0] + hold
    rows = min(first_rows, 1 + max(row for row, line in enumerate(frames[-1][1]) if line))
    width, height = columns * CHARACTER + 2 * MARGIN, rows * LINE + 2 * MARGIN
    styles, texts = [], []
    for number, (row, line, first, last) in enumerate(intervals(frames, end)):
        if row >= rows:
            continue
        x = float(MARGIN)
        spans = []
        for text, color, bold in line:
            fill = COLORS.get(color, f"#{color}" if len(color) == 6 else COLORS["default"])
            weight = ' font-weight="bold"' if bold else ""
            if text.strip():
                spans.append(f'<tspan x="{x:.1f}" fill="{fill}"{weight}>{html.escape(text)}</tspan>')
            x += len(text) * CHARACTER
        is_last = last >= end
        if first > 0 or not is_last:
            begin, stop = 100 * first / end, 100 * last / end
            off = "" if is_last else f"{stop:.3f}%,100%{{visibility:hidden}}"
            before = f"0%,{max(begin - 0.001, 0):.3f}%{{visibility:hidden}}" if first > 0 else ""
            shown = f"{begin:.3f}%,{min(stop - 0.001, 100):.3f}%{{visibility:visible}}"
            styles.append(f"@keyframes k{number}{{{before}{shown}{off}}}#l{number}{{animation:k{number} {end:.2f}s step-end infinite}}")
        hidden = "" if is_last else ' visibility="hidden"'
        y = MARGIN + row * LINE + 13
        texts.append(f'<text id="l{number}" y="{y}"{hidden} xml:space="preserve">{"".join(spans)}</text>')
    still = "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="A recorded terminal session">\n<style>text{{font:14px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}}'
        f'{"".join(styles)}{still}</style>\n<rect width="100%" height="100%" rx="8" fill="#1f2430"/>\n' + "\n".join(texts) + "\n</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--first-rows", type=int, default=1000, help="draw only the first rows of the screen")
    parser.add_argument("--pause", type=float, default=1.0, help="the longest pause in seconds")
    parser.add_argument("--hold", type=float, default=6.0, help="how long the last screen stays, in seconds")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    frames = record(arguments.command, arguments.columns, arguments.rows, arguments.pause)
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(render(frames, arguments.columns, arguments.hold, arguments.first_rows))


if __name__ == "__main__":
    main()
