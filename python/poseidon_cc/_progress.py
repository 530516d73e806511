"""Shows progress on a terminal and in notebooks."""

import sys
import time


class _Silent:
    callback = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class _Function(_Silent):
    def __init__(self, function):
        self.callback = function


class _Timed(_Silent):
    """Shows nothing in the first half second, so that short runs leave no trace."""

    DELAY = 0.5

    def __enter__(self):
        self._started = time.monotonic()
        self._shown = False
        return self

    def __exit__(self, *_):
        if self._shown:
            self._clear()
        return False

    def callback(self, finished, total, share):
        elapsed = time.monotonic() - self._started
        if elapsed < self.DELAY or total == 0:
            return
        left = f", about {elapsed * (1 - share) / share:.0f} s left" if share > 0.02 else ""
        self._show(f"{finished} of {total} runs, {100 * share:.0f} %{left}", share)
        self._shown = True


class _Terminal(_Timed):
    def _show(self, text, share):
        filled = int(30 * share)
        sys.stderr.write(f"\r\x1b[K[{'#' * filled}{'.' * (30 - filled)}] {text}")
        sys.stderr.flush()

    def _clear(self):
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Notebook(_Timed):
    def __init__(self, display, html):
        self._display, self._html, self._handle = display, html, None

    def _show(self, text, share):
        bar = self._html(f'<progress value="{share:.3f}" max="1"></progress> {text}')
        if self._handle is None:
            self._handle = self._display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def _clear(self):
        if self._handle is not None:
            self._handle.update(self._html(""))


def _in_notebook():
    # Only an interpreter that has imported IPython can be a kernel.
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return shell is not None and hasattr(shell, "kernel")


def choose_progress(progress):
    """Returns how to show progress: `None` chooses, a bool forces, and a function receives it."""
    if callable(progress):
        return _Function(progress)
    if progress is False:
        return _Silent()
    if _in_notebook():
        from IPython.display import HTML, display

        return _Notebook(display, HTML)
    if progress is True or sys.stderr.isatty():
        return _Terminal()
    return _Silent()
