"""User errors. Each message says what was given, what is allowed, and what to do.

Library code raises them and never exits or prints. The command line prints the message and exits with 2.
"""


class NmtError(Exception):
    """A user error. The message is complete: what is wrong, where, and what to do."""

    typed: str = ""
    """The message with the options of the command line, where the message itself has arguments of Python."""


class ConfigError(NmtError):
    """A setting is unknown, has the wrong type, or contradicts another setting or an earlier run."""


class DataError(NmtError):
    """Text, shards or a data set cannot be used."""


class VocabularyError(NmtError):
    """A vocabulary cannot be trained, or is not the one that the data or the model was made with."""


class CheckpointError(NmtError):
    """A run, checkpoint or bundle is missing, damaged or unsuitable."""


class OutputError(NmtError):
    """The output path holds something that the command must not replace."""


class DownloadError(NmtError):
    """A file could not be fetched, or is not the requested file."""


class TrainingError(NmtError):
    """Training cannot continue: gradients stay non-finite, or a pair of sentences does not fit into memory."""


class NmtWarning(UserWarning):
    """Something that a user should know, but that stops nothing. The command line prints it as a warning."""
