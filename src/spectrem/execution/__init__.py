"""Where the E-steps of the shards run."""

from spectrem.execution.executor import Executor
from spectrem.execution.serial import Serial
from spectrem.execution.threads import Threads, executor_for

__all__ = ["Executor", "Serial", "Threads", "executor_for"]
