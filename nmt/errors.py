"""What can go wrong on a user's side: each error says what was given, what is allowed and what to do.

Library code raises these and never exits or prints; the command line prints the message and exits with 2.
"""


class NmtError(Exception):
    """A mistake that a user can mend. The message is complete: what, where, and what to do."""


class ConfigError(NmtError):
    """A setting that is unknown, of the wrong type, or at odds with another or with an earlier run."""


class DataError(NmtError):
    """Text, shards or a data set that cannot be used as they are."""


class VocabularyError(NmtError):
    """A vocabulary that cannot be trained, or that is not the one that the data or the model was made with."""


class CheckpointError(NmtError):
    """A run, checkpoint or bundle that is missing, damaged or made for something else."""


class OutputError(NmtError):
    """Something stands where a command is to write, and is not the command's to replace."""


class DownloadError(NmtError):
    """A file that could not be fetched, or that is not the file that was asked for."""


class TrainingError(NmtError):
    """Training cannot go on: a gradient that stays infinite, or a pair of sentences that no memory holds."""


class NmtWarning(UserWarning):
    """Something that a user should know and that stops nothing. The command line prints it as a warning."""
