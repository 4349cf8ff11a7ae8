"""The signals that ask a run to save and end."""

from __future__ import annotations

import signal
import threading

SECONDS_OF_ONE_SIGNAL = 1.0
"""A terminal and a launcher may both send the same signal: within this time, a second one counts as the first."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT, and SIGHUP (the terminal is gone) unless the caller ignores SIGHUP, as nohup does.

    None in a thread beside the main one: Python lets only that handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return ()
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGTERM, signal.SIGINT
    return signal.SIGTERM, signal.SIGINT, signal.SIGHUP
